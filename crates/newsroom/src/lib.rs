//! A simulated web of publishers on loopback.
