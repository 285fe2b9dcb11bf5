//! Tests of whole devices: every composition against a plain vector of bytes, arrays with failed
//! members, files, their locks and their threads, many threads.

mod arrays;
mod block_devices;
mod files;
mod memory;
mod model;
mod support;
mod waiting;
mod writers;
