//! quick look
use sim::world::{run, Costs, Setup};
use sim::workload::*;
#[test]
fn look() {
    let p = paper();
    let b = sim::bound::bound(&p);
    println!("bound {:?} {}", b.hit_rate, b.makespan);
    for name in sched::policy::NAMES {
        let mut s = Setup::plain(name, Costs::H200); s.check = true; if let Ok(v)=std::env::var("P") { s.settings.patience=sched::Span::from_millis(v.parse().unwrap()); } if let Ok(v)=std::env::var("L") { s.settings.linger=sched::Span::from_micros(v.parse().unwrap()); } if let Ok(v)=std::env::var("M") { s.settings.margin_permille=v.parse().unwrap(); }
        let o = run(&p, s, |_| {});
        println!("{name} {} mean {} hit {:?} holds {} {:?}", o.makespan(), o.mean_turnaround(), o.hit_rate(), o.holds(), o.broken);
    }
    for seed in 1..9 {
    let g = Generator { seed, tasks: 1000, load: 0.9 }.workload();
    let b = sim::bound::bound(&g);
    println!("bound {:?} {}", b.hit_rate, b.makespan);
    let names: Vec<&str> = sched::policy::NAMES.into_iter().filter(|n| n.starts_with("l") || std::env::var("A").is_ok()).collect();
    for name in names {
        let t = std::time::Instant::now();
        let mut s = Setup::plain(name, Costs::H200); s.check = true; if let Ok(v)=std::env::var("P") { s.settings.patience=sched::Span::from_millis(v.parse().unwrap()); } if let Ok(v)=std::env::var("L") { s.settings.linger=sched::Span::from_micros(v.parse().unwrap()); } if let Ok(v)=std::env::var("M") { s.settings.margin_permille=v.parse().unwrap(); }
        let o = run(&g, s, |_| {});
        println!("{name} {} mean {} hit {:?} ratio {:.3} holds {} {:?} took {:?}", o.makespan(), o.mean_turnaround(), o.hit_rate(), o.hit_rate().unwrap()/b.hit_rate.unwrap(), o.holds(), o.broken, t.elapsed());
    }}
}
