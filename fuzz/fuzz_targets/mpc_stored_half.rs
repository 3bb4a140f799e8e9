#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fesc_mpc::fuzzing::stored_half(data));
