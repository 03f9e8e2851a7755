//! quick
#[test]
fn look() {
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let o = sim::scenario::run_logged(seed);
    for l in o.log.iter().take(400) { println!("{} {}", l.at.as_micros(), l.what); }
    println!("{:?}", o.broken);
}
