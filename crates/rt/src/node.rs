//! [`node_name`]: the name of the machine.

use crate::world;

/// Name of the machine in a simulated world.
const SIMULATED: &str = "simulated";

/// Returns the host name of the machine; a fixed name in a simulated world.
pub fn node_name() -> String {
    if world::is_simulated() {
        return SIMULATED.to_owned();
    }
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_the_name_of_the_system() {
        let expected = std::fs::read_to_string("/proc/sys/kernel/hostname");
        if let Ok(expected) = expected {
            assert_eq!(node_name(), expected.trim_end());
        }
    }
}
