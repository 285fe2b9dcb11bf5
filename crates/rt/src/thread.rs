//! Threads of the engine: [`spawn`], [`spawn_daemon`] and [`JoinHandle`].

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::debt::settle;
use crate::world;

/// A handle to a thread that can be joined. Dropping it detaches the thread.
pub struct JoinHandle<T> {
    thread: Thread<T>,
}

enum Thread<T> {
    Real(std::thread::JoinHandle<T>),
    Simulated {
        world_id: u64,
        task: u64,
        result: Slot<T>,
    },
}

type Slot<T> = Arc<Mutex<Option<T>>>;

/// The error of a thread that ended by a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    /// Message of the panic.
    pub message: String,
}

/// Starts a thread.
///
/// # Panics
///
/// Panics if the system cannot create the thread, or if the name holds a zero byte.
pub fn spawn<T, F>(name: &str, body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    start(name, false, body)
}

/// Starts a service thread that lives as long as its owner.
///
/// In a simulated world waiting daemons do not hide a deadlock, and a daemon that remains at the
/// end of the world is an error. In the real world it is an ordinary thread.
///
/// # Panics
///
/// Panics as [`spawn`] does.
pub fn spawn_daemon<T, F>(name: &str, body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    start(name, true, body)
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    ///
    /// - [`Panicked`] if it ended by a panic. In a simulated world a panic ends the whole world
    ///   instead.
    pub fn join(self) -> Result<T, Panicked> {
        match self.thread {
            Thread::Real(handle) => handle.join().map_err(|payload| Panicked {
                message: panic_message(&*payload),
            }),
            Thread::Simulated {
                world_id,
                task,
                result,
            } => {
                let world = world::current().expect("a task is joined in its own world");
                assert!(world.id() == world_id, "a task is joined in its own world");
                world.join(task);
                let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
                value.ok_or_else(|| Panicked {
                    message: "the task left no result".to_owned(),
                })
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JoinHandle { .. }")
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a thread panicked: {}", self.message)
    }
}

impl std::error::Error for Panicked {}

fn start<T, F>(name: &str, is_daemon: bool, body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let thread = match world::current() {
        Some(world) => {
            let result = Slot::default();
            let filled = Arc::clone(&result);
            let task = world.spawn(
                name,
                is_daemon,
                Box::new(move || {
                    let value = body();
                    *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                }),
            );
            Thread::Simulated {
                world_id: world.id(),
                task,
                result,
            }
        }
        None => {
            let builder = std::thread::Builder::new().name(name.to_owned());
            let body = || {
                let value = body();
                settle();
                value
            };
            Thread::Real(builder.spawn(body).expect("the system has threads left"))
        }
    };
    world::point();
    JoinHandle { thread }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_returns_the_value() {
        assert_eq!(spawn("adder", || 1 + 2).join(), Ok(3));
        assert_eq!(
            spawn_daemon("named", || std::thread::current().name().map(str::to_owned)).join(),
            Ok(Some("named".to_owned()))
        );
    }

    #[test]
    fn join_returns_the_panic() {
        let panicked = spawn("faulty", || panic!("number {}", 7)).join();
        assert_eq!(
            panicked,
            Err::<(), _>(Panicked {
                message: "number 7".to_owned()
            })
        );
    }
}
