//! Writes each target's seeds to a corpus: `cargo run -p fuzzing --example seeds -- fuzz/corpus`.

#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, with arguments"
)]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(corpus) = std::env::args().nth(1) else {
        return Err(std::io::Error::other("say where, as in fuzz/corpus"));
    };
    for target in fuzzing::TARGETS {
        let folder = Path::new(&corpus).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
