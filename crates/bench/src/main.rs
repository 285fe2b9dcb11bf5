//! Counts the instructions of each case under valgrind and compares them with the committed table.
//!
//! ```text
//! cargo xtask bench instructions            # compare
//! cargo xtask bench instructions --write    # write the table
//! ```

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measurements take place in the real world"
)]

mod count;
mod table;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use jext_bench::{Images, measured_part};

use table::Table;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: jext-bench instructions [--write]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match *words {
        ["instructions"] => compare(),
        ["instructions", "--write"] => write(),
        // Runs under valgrind.
        ["case", name, folder] => run(name, Path::new(folder)),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jext-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a case once.
fn run(name: &str, folder: &Path) -> Result<()> {
    let cases = jext_bench::all();
    let case = cases.iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("{name}: no such case"))?;
    let body = case.prepare(&Images::at(folder))?;
    // The process ends without the work of dropping what is left.
    std::mem::forget(measured_part(body)?);
    Ok(())
}

fn compare() -> Result<()> {
    let counted = Table::new(count::all()?)?;
    if std::env::consts::ARCH != table::ARCH {
        print!("{}", counted.text());
        eprintln!("not compared: the table is of {}", table::ARCH);
        return Ok(());
    }
    let expected = Table::read()?;
    let report = expected.compare(&counted);
    print!("{}", report.text);
    if report.changed == 0 {
        return Ok(());
    }
    let mut advice = format!(
        "{} of {} cases have changed by more than {} %: mend what costs more, or write the table with `cargo xtask bench instructions --write`, and say why in the commit",
        report.changed,
        report.cases,
        table::TOLERANCE_PERCENT,
    );
    if expected.compiler != counted.compiler {
        advice.push_str(&format!(
            "; the table is of {}, and this is {}",
            expected.compiler, counted.compiler
        ));
    }
    bail!(advice)
}

fn write() -> Result<()> {
    let counted = Table::new(count::all()?)?;
    counted.write()?;
    print!("{}", counted.text());
    Ok(())
}
