#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fesc_net::fuzzing::frame_header(data));
