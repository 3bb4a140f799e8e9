//! Tells the compiler whether the repository holds the shipped model, which is then made part of the program.

use std::path::Path;

fn main() {
    let model = Path::new("../../models/scotus");
    let files = ["config.json", "model.safetensors", "tokenizer.json", "calibration.json"];
    println!("cargo::rustc-check-cfg=cfg(shipped_model)");
    println!("cargo::rerun-if-changed={}", model.display());
    for file in files {
        println!("cargo::rerun-if-changed={}", model.join(file).display());
    }
    if files.iter().all(|file| model.join(file).exists()) {
        println!("cargo::rustc-cfg=shipped_model");
    }
}
