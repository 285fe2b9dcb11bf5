//! Both ends of a trial in a guest: [`job`] is what the guest is to do and what it reports;
//! [`init`](mod@init) is the program in the guest that does it.

pub mod init;
pub mod job;
