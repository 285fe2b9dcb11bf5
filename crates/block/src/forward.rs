//! Forwarding of a batch to the device below, except for requests that are answered at once.

use std::sync::Arc;

use crate::device::{BlockDevice, Request};
use crate::error::DeviceError;
use crate::ticket::{DetachedErrors, Outcome, Results, Ticket};

/// The answer to a request.
pub(crate) type Answer = Result<Outcome, DeviceError>;

/// Forwards the requests that `decide` passes on, possibly altered. Its ticket merges the results
/// of the device with the immediate answers in the order of the batch.
pub(crate) fn forward(
    device: &dyn BlockDevice,
    detached: &Arc<DetachedErrors>,
    batch: Vec<Request>,
    mut decide: impl FnMut(Request) -> Result<Request, Answer>,
) -> Ticket {
    let mut sent = Vec::with_capacity(batch.len());
    let mut answers = Results::new();
    let mut order = Vec::with_capacity(batch.len());
    for request in batch {
        match decide(request) {
            Ok(request) => {
                sent.push(request);
                order.push(SENT);
            }
            Err(answer) => {
                answers.push(answer);
                order.push(ANSWERED);
            }
        }
    }
    if answers.is_empty() {
        return device.submit(sent);
    }
    let answered = Ticket::ready_or_detached(answers, detached);
    if sent.is_empty() {
        return answered;
    }
    let parts = vec![device.submit(sent), answered];
    Ticket::joined(parts, move |parts| interleave(&order, parts))
}

const SENT: usize = 0;
const ANSWERED: usize = 1;

/// Takes, for each entry of `order`, the next result of the part that it names.
pub(crate) fn interleave(order: &[usize], parts: Vec<Results>) -> Results {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    order
        .iter()
        .map(|part| {
            parts[*part]
                .next()
                .expect("a device gives one result for each request")
        })
        .collect()
}
