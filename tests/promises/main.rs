//! What `PROMISES.md` promises, proved on every change: ratios and rates, never absolute times.

mod benches;
mod hit_rate;
