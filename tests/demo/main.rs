//! The tour: on every ground it can be shown on.
