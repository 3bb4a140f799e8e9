#![allow(clippy::unwrap_used)]
use super::super::{HeScanKernel, Minimax, Nerms, Polynomial};
use super::*;

#[test]
fn texts_are_plans() {
    let polynomial = |degree, tau| Activations::Polynomial(Polynomial { degree, tau });
    for (text, plan) in [
        ("fast", Plan::FAST),
        ("paper", Plan::PAPER),
        ("paper-44", Plan::PAPER_44),
        ("fast,scan=hescan", Plan { scan: Plan::PAPER.scan, ..Plan::FAST }),
        ("fast,scan=lanes", Plan { scan: Scan::HeScan(HeScanKernel::Lanes), ..Plan::FAST }),
        ("fast,scan=he-dual", Plan { scan: Scan::HeScan(HeScanKernel::Dual), ..Plan::FAST }),
        ("paper,projection=rlwe", Plan { projection: Projection::Rlwe, ..Plan::PAPER }),
        ("paper,projection=rlwe,scan=dual", Plan { projection: Projection::Rlwe, scan: Scan::Dual, ..Plan::PAPER }),
        ("paper,exp=stable", Plan { exp: ExpForm::Power, ..Plan::PAPER }),
        ("paper,norm=buckets", Plan { norm: Norm::Buckets, ..Plan::PAPER }),
        ("fast,norm=nerms,buckets=6,steps=2", Plan { norm: Norm::Nerms(Nerms { buckets: 6, steps: 2 }), ..Plan::FAST }),
        ("fast,activations=polynomial,degree=6,tau=5", Plan::FAST.with_activations(polynomial(6, 5))),
        (
            "fast,activations=piecewise-ten,exp=fine",
            Plan::FAST.with_activations(Activations::Ten).with_exp(ExpForm::Fine),
        ),
        ("fast,exp=mmexp,exp-degree=2", Plan::FAST.with_exp(ExpForm::Minimax(Minimax { degree: 2 }))),
        ("fast,clamp=no", Plan { clamp: false, ..Plan::FAST }),
    ] {
        assert_eq!(Plan::parse(text).unwrap(), plan, "{text}");
        assert_eq!(plan.name(), text);
    }
    // Other texts of the same plans, of which one is the name.
    for (text, name) in [
        ("paper,degree=6,steps=2,buckets=8,tau=4", "paper,degree=6,steps=2"),
        ("fast,steps=2,norm=nerms", "fast,norm=nerms,steps=2"),
        ("fast,scan=hybrid", "fast,scan=hescan"),
        ("fast,scan=dual", "fast"),
        // The one exp that this scan goes with, unless another is said, which is refused later by name.
        ("paper,scan=he-dual", "paper,scan=he-dual,exp=stable"),
        ("paper,scan=he-dual,exp=mmexp", "paper,scan=he-dual,exp=mmexp"),
        ("fast,exp=mmexp,scan=he-dual", "fast,scan=he-dual,exp=mmexp"),
        ("paper,scan=dual,projection=rlwe,norm=buckets,exp=stable", "fast,activations=polynomial"),
    ] {
        assert_eq!(Plan::parse(text).unwrap().name(), name, "{text}");
    }
}

/// Every combination of choices, and every value of every option, is read back.
#[test]
fn names_come_back() {
    let mut plans = Plan::NAMED.map(|(_, plan)| plan).to_vec();
    for stage in &STAGES {
        let with = |plan: &Plan, name: &&str| {
            let mut plan = *plan;
            assert!((stage.set)(&mut plan, name));
            plan
        };
        plans =
            plans.iter().flat_map(|plan| (stage.names)().iter().map(|n| with(plan, n)).collect::<Vec<_>>()).collect();
    }
    for setting in &SETTINGS {
        let values = (0..100).filter(|&v| setting.allows(v));
        plans.extend(values.map(|value| {
            let mut plan = Plan::PAPER;
            *(setting.at)(&mut plan).unwrap() = value;
            plan
        }));
    }
    for plan in &plans {
        assert!(plan.check().is_ok());
        assert_eq!(Plan::parse(&plan.name()).unwrap(), *plan, "{}", plan.name());
    }
    let mut odd = Plan::FAST;
    odd.numbers.frac += 1;
    assert!(Plan::parse(&odd.name()).is_err());
}

/// Choices by their own names: others of the same are left out.
#[test]
fn stages_have_their_choices() {
    let all: Vec<_> = stages().collect();
    assert_eq!(all.iter().map(|(stage, _)| *stage).collect::<Vec<_>>(), STAGES.each_ref().map(|s| s.name));
    assert!(all[1].1.starts_with(&["dual", "hescan", "lanes", "chunks", "he-dual"]), "{:?}", all[1]);
    assert_eq!(all[4], ("clamp", vec!["yes", "no"]));
}

#[test]
fn refusals_say_what_there_is() {
    for (text, needle) in [
        ("", "fast, paper, paper-44"),
        ("slow", "must begin with one of fast, paper, paper-44"),
        ("scan=dual", "must begin with"),
        ("fast,", "not of the form"),
        ("fast,scan", "STAGE=CHOICE"),
        ("fast,scan=fast", "\"fast\" is no choice of scan; there are scan=dual|hescan|hybrid|lanes|chunks|he-dual"),
        ("fast,scan=dual,scan=lanes", "scan is said twice"),
        ("fast,speed=9", "norm=buckets|nerms; options are degree from 2 to 6 in steps of 2 (activations=polynomial)"),
        ("fast,degree=4", "degree is an option of activations=polynomial only"),
        ("paper,exp=stable,exp-degree=4", "exp-degree is an option of exp=mmexp only"),
        ("paper,degree=3", "\"3\" is not taken; there is degree from 2 to 6"),
        ("paper,steps=0", "steps from 1 to 3"),
        ("paper,buckets=99999999999", "buckets from 2 to 64"),
        ("paper,tau=4.5", "tau from 2 to 8"),
    ] {
        let error = Plan::parse(text).unwrap_err().to_string();
        assert!(error.contains(needle), "{text}: {error}");
    }
    assert!(Plan::parse(&"x".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    let beyond = Plan { norm: Norm::Nerms(Nerms { buckets: 65, steps: 1 }), ..Plan::FAST };
    assert!(beyond.check().unwrap_err().to_string().contains("buckets is 65; there is buckets from 2 to 64"));
}
