//! Measures the speed of worlds on this machine: real nanoseconds for each simulated operation.
//!
//! ```text
//! cargo run --release -p jext-sim --example speed
//! ```

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this measures real time"
)]

use std::sync::Arc;
use std::time::Instant;

use rt::{Condvar, Cost, Mutex, Nanos};
use sim::{Config, P4_2_66_2003};

const ROUNDS: u64 = 2_000_000;

fn main() -> Result<(), sim::SimError> {
    println!("{:<44} {:>10}", "operation", "ns");
    measure("lock and unlock, real world", || {
        locks();
        Ok(())
    })?;
    measure("lock and unlock, fair world", || {
        run(Config::fair(1), locks)
    })?;
    measure("lock and unlock, random world", || {
        run(Config::random(1), locks)
    })?;
    measure("charge, fair world", || {
        run(p4(), || (0..ROUNDS).for_each(|_| rt::charge(Cost::Lookup)))
    })?;
    measure("sleep alone, fair world", || {
        run(p4(), || (0..ROUNDS).for_each(|_| rt::sleep(Nanos::new(9))))
    })?;
    measure("switch between two sleepers, fair world", || {
        run(p4(), || two(sleeper))
    })?;
    measure("hand over a turn by condvar, fair world", || {
        run(p4(), turns)
    })?;
    measure("hand over a turn by condvar, random world", || {
        run(Config::random(1), turns)
    })?;
    Ok(())
}

fn p4() -> Config {
    Config {
        host: P4_2_66_2003,
        ..Config::fair(1)
    }
}

fn run(config: Config, root: fn()) -> Result<(), sim::SimError> {
    sim::run(config, root).map(|report| report.value)
}

fn measure(
    name: &str,
    body: impl FnOnce() -> Result<(), sim::SimError>,
) -> Result<(), sim::SimError> {
    let start = Instant::now();
    body()?;
    println!(
        "{name:<44} {:>10.1}",
        start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
    );
    Ok(())
}

fn locks() {
    let mutex = Mutex::new(0_u64);
    (0..ROUNDS).for_each(|_| *mutex.lock() += 1);
}

fn two(body: fn()) {
    let other = rt::spawn("other", body);
    body();
    other.join().expect("the other task returns");
}

fn sleeper() {
    (0..ROUNDS / 2).for_each(|_| rt::sleep(Nanos::new(10)));
}

fn turns() {
    let pair = Arc::new((Mutex::new(0_u64), Condvar::new()));
    let shared = Arc::clone(&pair);
    let other = rt::spawn("other", move || take_turns(&shared, 1));
    take_turns(&pair, 0);
    other.join().expect("the other task returns");
}

fn take_turns(pair: &(Mutex<u64>, Condvar), mine: u64) {
    let mut turn = pair.0.lock();
    while *turn < ROUNDS {
        if *turn % 2 == mine {
            *turn += 1;
            pair.1.notify_one();
        } else {
            pair.1.wait(&mut turn);
        }
    }
}
