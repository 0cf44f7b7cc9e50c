//! Bytes in, values out: what publishers serve, read into plain values.
//!
//! Nothing here opens a socket, reads a clock, spawns a thread or knows a database; everything is
//! a function of its arguments, bounded in time and memory whatever it is fed.
#![warn(missing_docs)]

pub mod article;
pub mod charset;
pub mod csv;
pub mod date;
pub mod decode;
pub mod discover;
pub mod feed;
pub mod json;
pub mod opml;
pub mod rights;
pub mod robots;
mod room;
pub mod simhash;
pub mod sitemap;
pub mod sketch;
pub mod sniff;
pub mod terminal;
pub mod unwrap;
pub mod url;
pub mod walk;
pub mod wall;
pub mod warc;
mod xml;
