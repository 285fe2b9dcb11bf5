//! The time of each case on this machine: `cargo bench -p jext-bench --features times`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    missing_docs,
    reason = "measurements take place in the real world"
)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jext_bench::{Images, measured_part};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn times(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for images");
    let images = Images::make(folder.path()).expect("the images are made");
    for case in jext_bench::all() {
        let mut group = criterion.benchmark_group(&case.name);
        group.sample_size(20);
        group.throughput(Throughput::Elements(case.operations));
        group.bench_function("body", |bencher| {
            bencher.iter_batched(
                || case.prepare(&images).expect("the case is prepared"),
                |body| measured_part(body).expect("the case succeeds"),
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, times);
criterion_main!(benches);
