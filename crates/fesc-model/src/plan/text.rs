//! A plan as text: a named plan, then the choices in which it differs, as in
//! `paper,projection=rlwe,degree=6`.
//!
//! Stages are `projection`, `scan`, `activations`, `exp`, `clamp` (`yes`, `no`) and `norm`; the names of
//! their choices are beside the enums. Options are numbers of one choice ([`SETTINGS`]); a choice has the
//! paper's until told otherwise, in whatever order the text says it. `he-dual` takes exp of sums, for which
//! one exp serves: where the text says none, that is `stable`, and the name says it.

use std::fmt;

use super::{Activations, ExpForm, Norm, Plan, Projection, Scan};

/// The longest text taken; all stages and options have fewer bytes.
const LONGEST: usize = 400;

/// A text that is no plan, or a plan with an option beyond its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

/// Choices by their names. A choice may have several, the first is its own.
pub(super) type Names<C> = &'static [(&'static str, C)];

/// What a stage may be computed by. What is not in `ALL` cannot be asked for.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const STAGE: &'static str;
    const ALL: Names<Self>;

    /// Where a plan has it.
    fn of(plan: &mut Plan) -> &mut Self;
}

const PAPER: Plan = Plan::PAPER;

impl Choice for bool {
    const STAGE: &'static str = "clamp";
    const ALL: Names<Self> = &[("yes", true), ("no", false)];

    fn of(plan: &mut Plan) -> &mut Self {
        &mut plan.clamp
    }
}

/// A stage, whatever the type of its choices.
struct Stage {
    name: &'static str,
    /// The names of its choices.
    names: fn() -> Vec<&'static str>,
    /// Takes the choice of this name, if it is one.
    set: fn(&mut Plan, &str) -> bool,
    /// The name of a plan's choice.
    get: fn(Plan) -> &'static str,
}

impl Stage {
    const fn of<C: Choice>() -> Self {
        Self {
            name: C::STAGE,
            names: || C::ALL.iter().map(|(name, _)| *name).collect(),
            set: |plan, name| {
                let found = C::ALL.iter().find(|(known, _)| *known == name);
                found.map(|(_, choice)| *C::of(plan) = *choice).is_some()
            },
            get: |mut plan| {
                let own = *C::of(plan.usual());
                C::ALL.iter().find(|(_, choice)| *choice == own).map_or("other", |(name, _)| name)
            },
        }
    }

    /// `scan=dual|hescan|..`.
    fn usage(&self) -> String {
        format!("{}={}", self.name, (self.names)().join("|"))
    }
}

const STAGES: [Stage; 6] = [
    Stage::of::<Projection>(),
    Stage::of::<Scan>(),
    Stage::of::<Activations>(),
    Stage::of::<ExpForm>(),
    Stage::of::<bool>(),
    Stage::of::<Norm>(),
];

/// The stages of a plan, and the choices of each by its own name, for whoever tries them all.
pub fn stages() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    STAGES.iter().map(|stage| {
        let own = |name: &&str| {
            let mut plan = PAPER;
            (stage.set)(&mut plan, name) && (stage.get)(plan) == *name
        };
        (stage.name, (stage.names)().into_iter().filter(own).collect())
    })
}

/// A number that one choice has.
struct Setting {
    name: &'static str,
    /// The choice that has it.
    of: &'static str,
    /// From, to, in steps of.
    limits: (u32, u32, u32),
    /// Where a plan has it, if it has that choice.
    at: fn(&mut Plan) -> Option<&mut u32>,
}

const SETTINGS: [Setting; 5] = [
    Setting {
        name: "degree",
        of: "activations=polynomial",
        limits: (2, 6, 2),
        at: |plan| match &mut plan.activations {
            Activations::Polynomial(form) => Some(&mut form.degree),
            _ => None,
        },
    },
    Setting {
        name: "tau",
        of: "activations=polynomial",
        limits: (2, 8, 1),
        at: |plan| match &mut plan.activations {
            Activations::Polynomial(form) => Some(&mut form.tau),
            _ => None,
        },
    },
    Setting {
        name: "exp-degree",
        of: "exp=mmexp",
        limits: (2, 6, 2),
        at: |plan| match &mut plan.exp {
            ExpForm::Minimax(form) => Some(&mut form.degree),
            _ => None,
        },
    },
    Setting {
        name: "buckets",
        of: "norm=nerms",
        limits: (2, 64, 1),
        at: |plan| match &mut plan.norm {
            Norm::Nerms(form) => Some(&mut form.buckets),
            _ => None,
        },
    },
    Setting {
        name: "steps",
        of: "norm=nerms",
        limits: (1, 3, 1),
        at: |plan| match &mut plan.norm {
            Norm::Nerms(form) => Some(&mut form.steps),
            _ => None,
        },
    },
];

impl Setting {
    fn get(&self, mut plan: Plan) -> Option<u32> {
        (self.at)(&mut plan).copied()
    }

    fn usage(&self) -> String {
        let (from, to, step) = self.limits;
        let steps = if step == 1 { String::new() } else { format!(" in steps of {step}") };
        format!("{} from {from} to {to}{steps} ({})", self.name, self.of)
    }

    fn allows(&self, value: u32) -> bool {
        let (from, to, step) = self.limits;
        (from..=to).contains(&value) && (value - from).is_multiple_of(step)
    }
}

fn list(what: impl Iterator<Item = String>) -> String {
    what.collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// The plan of a text: the name of a plan, then choices and options, separated by commas.
    ///
    /// # Errors
    /// If a part of it is unknown, said twice or beyond its limits; the error lists what there is.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let refuse = |why: String| {
            let shown: String = text.chars().take(80).collect();
            Err(PlanError(format!("the plan {shown:?}: {why}")))
        };
        if text.len() > LONGEST {
            return refuse(format!("it has {} bytes, at most {LONGEST} are taken", text.len()));
        }
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let Some((_, mut plan)) = Self::NAMED.into_iter().find(|(known, _)| *known == name) else {
            let known = list(Self::NAMED.iter().map(|(name, _)| (*name).into()));
            return refuse(format!("it must begin with one of {known}, then choices such as scan=dual may follow"));
        };
        let (mut said, mut settings) = (Vec::new(), Vec::new());
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return refuse(format!("{part:?} is not of the form STAGE=CHOICE"));
            };
            if said.contains(&key) {
                return refuse(format!("{key} is said twice"));
            }
            said.push(key);
            let stage = STAGES.iter().find(|s| s.name == key);
            let setting = SETTINGS.iter().find(|s| s.name == key);
            match (stage, setting) {
                (Some(stage), _) => {
                    if !(stage.set)(&mut plan, value) {
                        return refuse(format!("{value:?} is no choice of {key}; there are {}", stage.usage()));
                    }
                }
                (None, Some(setting)) => settings.push((setting, value)),
                (None, None) => {
                    let stages = list(STAGES.iter().map(Stage::usage));
                    let settings = list(SETTINGS.iter().map(Setting::usage));
                    return refuse(format!(
                        "{key:?} is neither stage nor option; stages are {stages}; options are {settings}"
                    ));
                }
            }
        }
        for (setting, value) in settings {
            let Some(number) = value.parse().ok().filter(|&n| setting.allows(n)) else {
                return refuse(format!("{value:?} is not taken; there is {}", setting.usage()));
            };
            match (setting.at)(&mut plan) {
                Some(at) => *at = number,
                None => return refuse(format!("{} is an option of {} only", setting.name, setting.of)),
            }
        }
        if !said.contains(&ExpForm::STAGE) {
            plan.exp = plan.scan.exp().unwrap_or(plan.exp);
        }
        Ok(plan)
    }

    /// Refuses options beyond their limits: a plan may come from a peer.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        for setting in &SETTINGS {
            if let Some(value) = setting.get(*self).filter(|&v| !setting.allows(v)) {
                return Err(PlanError(format!("{} is {value}; there is {}", setting.name, setting.usage())));
            }
        }
        Ok(())
    }

    /// The shortest text of the plan: what [`Plan::parse`] reads back, if its numbers are those of a named
    /// plan.
    pub fn name(&self) -> String {
        let texts = Self::NAMED.iter().filter(|(_, named)| named.numbers == self.numbers).map(|(name, named)| {
            let mut text = vec![(*name).to_string()];
            // What the scan takes where nothing is said.
            let silent = Self { exp: self.scan.exp().unwrap_or(named.exp), ..*named };
            for stage in &STAGES {
                let own = (stage.get)(*self);
                if [silent, *named].iter().any(|plan| (stage.get)(*plan) != own) {
                    text.push(format!("{}={own}", stage.name));
                }
            }
            // Named plans have the usual options.
            for setting in &SETTINGS {
                if let Some(own) = setting.get(*self).filter(|own| setting.get(PAPER) != Some(*own)) {
                    text.push(format!("{}={own}", setting.name));
                }
            }
            text
        });
        texts.min_by_key(Vec::len).map_or_else(|| "with other numbers".into(), |text| text.join(","))
    }

    /// Its options replaced by the usual ones.
    fn usual(&mut self) -> &mut Self {
        for setting in &SETTINGS {
            if let (Some(at), Some(usual)) = ((setting.at)(self), setting.get(PAPER)) {
                *at = usual;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
