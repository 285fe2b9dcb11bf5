//! The costs that the engine reports to a simulated host.

use ext::options::DataMode;
use rt::Nanos;
use sim::{Config, HostProfile, ZERO};

use crate::rig::{Place, Rig, quiet};

/// Returns the processor time of ten new directories on a host on which only handles cost time.
fn cost_of_handles(place: Place) -> Nanos {
    let rig = Rig::new(place, 1024, 12 << 20);
    let config = Config {
        host: HostProfile {
            handle_ns: 1000,
            ..ZERO
        },
        ..Config::fair(1)
    };
    let report = sim::run(config, move || {
        let volume = rig.open(quiet(DataMode::Ordered));
        for number in 0..10 {
            let made = volume.create_directory(&format!("/{number}"));
            made.expect("mkdir");
        }
        volume.close().expect("close");
    });
    report.unwrap_or_else(|error| panic!("{error}")).cpu_busy
}

#[test]
fn handles_cost_time_only_with_a_journal() {
    assert_eq!(cost_of_handles(Place::None), Nanos::ZERO);
    assert!(cost_of_handles(Place::Internal) >= Nanos::from_micros(10));
}
