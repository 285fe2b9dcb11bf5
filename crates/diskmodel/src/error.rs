//! Errors of opening a simulated device.

/// An error in creating a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The catalogue has no entry with that name.
    #[error("no simulated device is called {name}; there are {known}")]
    UnknownDevice {
        /// Name that was requested.
        name: String,
        /// Known names.
        known: String,
    },
    /// The device has no option with that name.
    #[error("{device} has no option {key}; it takes {known}")]
    UnknownOption {
        /// Device.
        device: String,
        /// Option.
        key: String,
        /// Known options.
        known: &'static str,
    },
    /// The value of the option is invalid.
    #[error("{key}={value}: expected {expected}")]
    BadValue {
        /// Option.
        key: String,
        /// Value that was given.
        value: String,
        /// Expected value.
        expected: String,
    },
    /// A memory device needs an explicit size.
    #[error("{device} needs a size: capacity=128MiB")]
    NoCapacity {
        /// Device.
        device: String,
    },
    /// The given store is too small.
    #[error("{device} has {wanted} bytes, but its store only {found}")]
    StoreTooSmall {
        /// Device.
        device: String,
        /// Size of the device in bytes.
        wanted: u64,
        /// Size of the store in bytes.
        found: u64,
    },
    /// The calling task is not in a simulated world.
    #[error("{device} exists only in simulated time")]
    NotSimulated {
        /// Device.
        device: String,
    },
}
