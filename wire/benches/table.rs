//! How long one consistent read of the task table takes: the goal is a microsecond for ten tasks.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use wire::table::{MAGIC, Mapped, Reader, TABLE_BYTES, TASK_WORDS, VERSION, header, publish};

fn read(c: &mut Criterion) {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in shared memory");
    file.as_file().set_len(TABLE_BYTES as u64).expect("room for a table");
    let writer = Mapped::new(file.as_file(), true).expect("a mapping to write");
    writer.words()[header::MAGIC].store(MAGIC, Relaxed);
    writer.words()[header::VERSION].store(VERSION, Relaxed);
    let reader = Reader::open(file.path()).expect("a mapping to read");
    let mut tasks = Vec::new();
    for count in [10, 100, 1000] {
        publish(&writer, 0, count, &vec![[7; TASK_WORDS]; count]);
        c.bench_function(&format!("table_read/{count}"), |b| {
            b.iter(|| {
                reader.read(&mut tasks).expect("a whole table");
                black_box(tasks.len())
            });
        });
    }
}

criterion_group!(benches, read);
criterion_main!(benches);
