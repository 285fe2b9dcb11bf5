//! Tests of whole devices: every composition against a plain vector of bytes, arrays with failed
//! members, files and their locks, many threads.

mod arrays;
mod block_devices;
mod files;
mod memory;
mod model;
mod support;
mod writers;
