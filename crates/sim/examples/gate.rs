//! Prints the trace hashes of many seeds over a small mixed workload. A debug build, a release
//! build and another machine must print the same.
//!
//! ```text
//! cargo run -p jext-sim --example gate -- 100 > debug.txt
//! cargo run --release -p jext-sim --example gate -- 100 | diff debug.txt -
//! ```

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program reads its arguments"
)]

use std::collections::VecDeque;
use std::sync::Arc;

use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{Condvar, Cost, Memory, Mutex, Nanos, RwLock};
use sim::{CLOUD_VM, Config, P4_2_66_2003, SimError};

const SEED_COUNT: u64 = 20;
const TASK_COUNT: u64 = 6;
const ROUND_COUNT: u64 = 60;

fn main() -> Result<(), SimError> {
    let count = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(SEED_COUNT);
    for seed in 0..count {
        for config in [
            Config {
                host: P4_2_66_2003,
                ..Config::fair(seed)
            },
            Config {
                host: CLOUD_VM,
                ..Config::random(seed)
            },
            Config {
                host: P4_2_66_2003.with_cpu_count(2),
                ..Config::pct(seed, 3)
            },
            Config::random(seed),
        ] {
            let report = sim::run(config, workload)?;
            println!(
                "{:016x} {:>12} {}",
                report.trace_hash,
                report.elapsed.get(),
                report.replay
            );
        }
    }
    Ok(())
}

/// A queue backed by a device, a table of numbers, and a daemon that serves them.
#[derive(Default)]
struct Shop {
    orders: Mutex<VecDeque<u64>>,
    ordered: Condvar,
    served: Condvar,
    table: RwLock<Vec<u64>>,
    served_count: AtomicU64,
    is_closed: AtomicBool,
}

fn workload() -> u64 {
    let shop = Arc::new(Shop::default());
    let served = Arc::clone(&shop);
    sim::spawn_device("server", move || serve(&served));
    let tended = Arc::clone(&shop);
    let daemon = rt::spawn_daemon("tender", move || tend(&tended));
    let tasks: Vec<_> = (0..TASK_COUNT)
        .map(|index| {
            let shop = Arc::clone(&shop);
            rt::spawn(&format!("customer {index}"), move || buy(&shop, index))
        })
        .collect();
    let mut sum = 0_u64;
    for task in tasks {
        sum = sum.wrapping_add(task.join().expect("a customer leaves"));
    }
    shop.is_closed.store(true, Ordering::Release);
    daemon.join().expect("the tender leaves");
    sum
}

fn serve(shop: &Shop) {
    loop {
        let mut orders = shop.orders.lock();
        let order = loop {
            match orders.pop_front() {
                Some(order) => break order,
                None => shop.ordered.wait(&mut orders),
            }
        };
        drop(orders);
        rt::sleep(Nanos::from_micros(100 + order % 4_000));
        sim::trace(order);
        shop.served_count.fetch_add(1, Ordering::Release);
        sim::requests_in_flight(-1);
        shop.served.notify_all();
    }
}

fn tend(shop: &Shop) {
    while !shop.is_closed.load(Ordering::Acquire) {
        rt::sleep(Nanos::from_millis(5));
        let mut table = shop.table.write();
        rt::charge(Cost::Checksum(8 * table.len() as u64));
        table.retain(|number| number % 3 != 0);
    }
}

fn buy(shop: &Shop, index: u64) -> u64 {
    let mut late_count = 0;
    for round in 0..ROUND_COUNT {
        rt::charge(Cost::Syscall);
        let from = Memory {
            owner: rt::random_u64() % 4,
            offset: rt::random_u64() % (1 << 20),
        };
        let bytes = rt::random_u64() % 65_536;
        rt::charge(Cost::CopyOut { from, bytes });
        let number = rt::random_u64();
        if round % 4 == index % 4 {
            let mut orders = shop.orders.lock();
            orders.push_back(number);
            sim::requests_in_flight(1);
            let deadline = rt::monotonic() + Nanos::from_millis(3);
            shop.ordered.notify_one();
            late_count += u64::from(shop.served.wait_until(&mut orders, deadline));
        } else if number.is_multiple_of(2) {
            shop.table.write().push(number);
        } else {
            let table = shop.table.read();
            rt::charge(Cost::Lookup);
            rt::point();
            late_count += table.len() as u64;
        }
    }
    late_count.wrapping_add(rt::monotonic().get()) ^ shop.served_count.load(Ordering::Acquire)
}
