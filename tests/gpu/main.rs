//! The simulated GPU, as programs, monitors and containers meet it.
