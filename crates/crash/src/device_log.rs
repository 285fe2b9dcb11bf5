//! The requests of a recording as lines of text.

use block::Request;
use block::trace::Event;
use layout::journal::Header;

use crate::recording::{Mark, Recording};

/// Returns the events up to a cut as lines.
pub fn device_log(recording: &Recording, until: usize) -> Vec<String> {
    let events = recording.events.iter().take(until).enumerate();
    events
        .map(|(number, event)| format!("{number:5}  {}", describe(recording, event)))
        .collect()
}

fn describe(recording: &Recording, event: &Event) -> String {
    let name = |device: usize| if device == 0 { "home" } else { "log" };
    match event {
        Event::Submitted {
            device,
            batch,
            requests,
        } => {
            let requests: Vec<String> = requests.iter().map(describe_request).collect();
            format!("{} batch {batch}: {}", name(*device), requests.join("; "))
        }
        Event::Completed {
            device,
            batch,
            results,
        } => match results.iter().find_map(|result| result.as_ref().err()) {
            Some(error) => format!("{} batch {batch} fails: {error}", name(*device)),
            None => format!("{} batch {batch} is done", name(*device)),
        },
        Event::Awaited { device, batch } => {
            format!("{} batch {batch}: is waited for", name(*device))
        }
        Event::Detached { device, batch } => {
            format!("{} batch {batch}: nobody waits for it", name(*device))
        }
        Event::Mark(mark) => {
            let Mark {
                lane,
                number,
                is_end,
            } = Mark::decode(*mark);
            let op = &recording.workload.lanes[lane][number];
            let first = recording.workload.prepared[lane];
            let done = recording.done[lane].get(number - first);
            match done.filter(|_| is_end) {
                Some(done) => format!("lane {lane}: {number} {op} has returned: {}", done.outcome),
                None => format!("lane {lane}: {number} {op} begins"),
            }
        }
    }
}

fn describe_request(request: &Request) -> String {
    match request {
        Request::Write {
            sector,
            payload,
            force_unit_access,
        } => {
            let (_, sectors) = request.range();
            let blocks = payload.iter().filter_map(|block| Header::recognise(block));
            let blocks: Vec<String> = blocks
                .map(|(kind, tid)| format!("{kind:?} {tid}"))
                .collect();
            let forced = if *force_unit_access { " forced" } else { "" };
            let log = if blocks.is_empty() {
                String::new()
            } else {
                format!(" ({})", blocks.join(", "))
            };
            format!("write {sectors} sectors at {sector}{forced}{log}")
        }
        other => other.operation().to_owned(),
    }
}
