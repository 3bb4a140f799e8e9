//! Bodies of the fuzz targets of this crate: functions of bytes that must not panic.

pub use crate::session::keyring::fuzzing::{file as key_file, message as key_message};
