//! The scheduler's statistics of threads (`/proc/self/task/*/schedstat`): running and waiting.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Opens the scheduler statistics of the threads of that name in this process: one, unless there
/// are several mounts.
pub(super) fn of_threads(name: &str) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may exit meanwhile.
        if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.push(File::open(path.join("schedstat"))?);
        }
    }
    if found.is_empty() {
        return Err(io::Error::other(format!("there is no thread {name}")));
    }
    Ok(found)
}

/// Returns the time for which a thread was ready and did not run.
pub(super) fn waited(statistics: &File) -> io::Result<Duration> {
    field(statistics, 1)
}

/// Returns the time for which a thread has run.
#[cfg(test)]
pub(super) fn ran(statistics: &File) -> io::Result<Duration> {
    field(statistics, 0)
}

/// Parses `schedstat`: nanoseconds on a processor, nanoseconds of waiting for one, time slices.
fn field(statistics: &File, index: usize) -> io::Result<Duration> {
    let mut text = [0; 80];
    let length = statistics.read_at(&mut text, 0)?;
    let nanoseconds = std::str::from_utf8(&text[..length])
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(index))
        .and_then(|field| field.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| io::Error::other("schedstat has another form than was expected"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_scheduler_tells_of_the_threads_of_a_name() {
        let own = thread::Builder::new()
            .name("jext-named".to_owned())
            .spawn(|| of_threads("jext-named").and_then(|files| waited(&files[0])))
            .expect("a thread");
        own.join().expect("no panic").expect("statistics");
        let error = of_threads("jext-nobody").expect_err("nobody");
        assert_eq!(error.to_string(), "there is no thread jext-nobody");
    }
}
