#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fesc_ckks::fuzzing::wire(data);
});
