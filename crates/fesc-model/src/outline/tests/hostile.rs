//! Outlines from a peer that lies: refused, or sound. Never a panic.

use serde_json::{Value, json};

use super::*;

/// What is accepted is bounded, has all its forms, and is read back.
fn sound_or_refused(text: &str) -> bool {
    let Ok(outline) = Outline::from_json(text) else { return false };
    let shape = outline.shape();
    assert!(shape.layers <= 1024 && shape.proj_dim() * shape.d_model <= 1 << 28);
    for i in 0..shape.layers.min(4) {
        let forms = outline.layer(i).unwrap();
        let s = forms.scales;
        // Differences that the stages rely on.
        assert!(s.mixed + s.x > s.exp && s.mixed + s.x > s.scanned && s.score + scale::DELTA >= s.mixed);
        assert!(2 * s.bc >= s.score && s.bc + s.weighted >= s.state && s.exp + scale::DELTA >= s.column);
        for norm in [&forms.norm, &forms.gated] {
            assert!(norm.eps >= 0 && norm.square <= 20 && norm.exponent <= 16);
            assert!(norm.rsqrt.v_frac() <= 2 * (norm.square + norm.exponent) + 32);
        }
    }
    assert_eq!(Outline::from_json(&outline.to_json()).unwrap(), outline);
    outline.digest().unwrap();
    true
}

/// Calls `f` with the tree once for every node, that node replaced.
fn replaced(value: &Value, with: &Value, f: &mut dyn FnMut(&Value)) {
    fn paths(value: &Value, path: &str, out: &mut Vec<String>) {
        out.push(path.into());
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| paths(v, &format!("{path}/{k}"), out)),
            Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| paths(v, &format!("{path}/{i}"), out)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    paths(value, "", &mut all);
    for path in all {
        let mut changed = value.clone();
        *changed.pointer_mut(&path).unwrap() = with.clone();
        f(&changed);
    }
}

#[test]
fn every_number_is_checked() {
    check_every_number(&outline());
    let model = model(free(), &NAMES, Some(3), 1);
    check_every_number(&Outline::new(model.config(), &calibration(&model), Plan::PAPER).unwrap());
}

fn check_every_number(outline: &Outline) {
    let good: Value = serde_json::from_str(&outline.to_json()).unwrap();
    assert!(sound_or_refused(&good.to_string()));
    let hostile = [
        json!(0),
        json!(1),
        json!(-1),
        json!(7),
        json!(1 << 24),
        json!(u32::MAX),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(f64::MAX.to_bits()),
        json!(f64::MIN_POSITIVE.to_bits()),
        json!(f64::NAN.to_bits()),
        json!(1e30f64.to_bits()),
        json!(1e-6f64.to_bits()),
        json!(f32::NAN.to_bits()),
        json!((-1.0f32).to_bits()),
        json!(1e300),
        json!("five"),
        json!(null),
        json!([]),
        json!({}),
    ];
    let (mut tried, mut taken) = (0, Vec::new());
    for with in &hostile {
        replaced(&good, with, &mut |changed| {
            tried += 1;
            if changed != &good && sound_or_refused(&changed.to_string()) {
                taken.push(with.to_string());
            }
        });
    }
    println!("{} of {tried} taken: {taken:?}", taken.len());
    // Some numbers are free within limits (rows of the embedding, one tap more, a name), most are not.
    assert!(tried > 1500 && taken.len() < tried / 20, "{} of {tried}", taken.len());
}

#[test]
fn spoilt_bytes_are_no_panic() {
    let good = outline().to_json().into_bytes();
    let mut prg = Prg::from_seed([8; 16]);
    let mut taken = 0;
    for round in 0..4_000 {
        let mut text = good.clone();
        for _ in 0..1 + round % 3 {
            let at = prg.next_u64() as usize % text.len();
            match prg.next_u64() % 4 {
                0 => text[at] = b'0' + (prg.next_u64() % 10) as u8,
                1 => text[at] = prg.next_u64() as u8,
                2 => drop(text.remove(at)),
                _ => text.truncate(at + 1),
            }
        }
        taken += i32::from(sound_or_refused(&String::from_utf8_lossy(&text)));
    }
    println!("{taken} of 4000 taken");
    assert!(taken < 1000, "{taken}");
}

/// Each refusal says what is wrong.
#[test]
fn refusals_name_the_fault() {
    let good: Value = serde_json::from_str(&outline().to_json()).unwrap();
    let refusal = |path: &str, with: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = with;
        Outline::from_json(&changed.to_string()).unwrap_err().to_string()
    };
    let layer = good["layers"][0].clone();
    for (path, with, needle) in [
        ("/version", json!(2), "version is 2"),
        ("/shape/layers", json!(3), "2 layers of 3"),
        ("/layers", vec![layer.clone(); 3].into(), "3 layers of 2"),
        ("/shape/heads", json!(5), "5 heads do not divide into 2 groups"),
        ("/shape/norm_eps", json!(0), "epsilon is 0"),
        ("/shape/vocab", json!(1 << 25), "vocab_size"),
        ("/layers/1/scales/exp", json!(23), "layer 1: exp has 23 fractional bits, not 12 to 22"),
        ("/layers/1/scales/conv_tap", json!(u32::MAX), "conv_weight and conv_tap has 4294967295"),
        ("/layers/1/scales/conv_tap", json!(4), "divide badly"),
        ("/layers/1/scales/x", json!(15), "x has 15"),
        ("/layers/0/norm/octaves", json!(41), "rsqrt"),
        ("/layers/0/norm/v_log", json!(i32::MAX), "rsqrt"),
        ("/layers/0/norm/v_log", json!(i32::MIN), "rsqrt"),
        ("/layers/0/gated/v_frac", json!(60), "rsqrt"),
        ("/last/square", json!(17), "the final norm has 17"),
        ("/classes", json!(2), "2 classes with 3 names"),
        ("/silu", json!("six"), "six"),
        ("/silu", json!({"polynomial": {"degree": 8, "tau": 4}}), "degree is 8"),
        ("/silu", json!({"polynomial": {"degree": 4, "tau": 9}}), "tau is 9"),
        ("/silu", json!({"polynomial": {"degree": 4, "tau": 4}}), "activations=piecewise"),
        ("/exp", json!({"minimax": {"degree": 3}}), "exp-degree is 3"),
        ("/labels/1", json!("\u{7}"), "the name of class 1"),
    ] {
        let error = refusal(path, with);
        assert!(error.contains(needle), "{path}: {error}");
    }
    let sized = |sizes: &[(&str, usize)]| {
        let mut changed = good.clone();
        sizes.iter().for_each(|&(name, size)| changed["shape"][name] = json!(size));
        Outline::from_json(&changed.to_string()).unwrap_err().to_string()
    };
    assert!(sized(&[("d_model", 1 << 16), ("vocab", 1 << 24)]).contains("embedding would have"));
    assert!(sized(&[("d_model", 1 << 16), ("head_dim", 1 << 12)]).contains("in_proj would have"));
    assert!(sized(&[("state", 1 << 12), ("head_dim", 1 << 12), ("heads", 8)]).contains("state would have"));
    let mut extra = good.clone();
    extra["weights"] = json!([1]);
    assert!(Outline::from_json(&extra.to_string()).unwrap_err().to_string().contains("weights"));
    let mut deep = good;
    deep["shape"]["layers"] = json!(1025);
    deep["layers"] = vec![layer; 1025].into();
    assert!(Outline::from_json(&deep.to_string()).unwrap_err().to_string().contains("at most 1024"));
    assert!(Outline::from_json(&" ".repeat(5 << 20)).unwrap_err().to_string().contains("bytes"));
    assert!(Outline::from_json(&"[".repeat(1 << 20)).is_err());
}
