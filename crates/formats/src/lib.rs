//! Bytes in, values out: what publishers serve, read into plain values.
//!
//! Nothing here opens a socket, reads a clock, spawns a thread or knows a database; everything is
//! a function of its arguments, bounded in time and memory whatever it is fed.
