//! Stories about the tracker: facts in, news out.

mod containers;
mod gaps;
mod grips;
mod lives;
mod sharing;
mod terms;
