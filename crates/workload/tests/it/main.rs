//! Tests of the workloads' public interface.

mod directory;
mod figures;
mod golden;
mod lab;
mod loads;
mod names;
mod original;
mod recorder;
mod session;
