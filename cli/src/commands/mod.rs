//! One command per file.

pub mod sim;
