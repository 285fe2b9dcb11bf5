//! Tests of the explorer on the engine.

#![allow(clippy::unwrap_used, reason = "tests stop at what they do not expect")]

mod mutants;
mod named;
mod outside;
mod planted;
mod promises;
mod real;
mod recorded;
mod rules;
mod scripted;
mod sessions;
mod silent;
mod steps;
