#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fesc_infer::fuzzing::key_message(data);
});
