//! The settings of a database: the configuration, with what operators have set
//! on top. Knows nothing of the core, of clocks or of the store.

mod workloads;

use std::{fmt, mem::discriminant, sync::Arc, time::Duration};

use leasehold_admission::{
    Admission, DatabaseSettings, LossPolicy, Workloads,
    durable::{Operator, Override, OverrideValue},
};

pub use self::workloads::{WorkloadOverride, WorkloadSetting, spelled};
use crate::config::{self, DatabaseConfig, Source};

/// Settings that can be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Upper bound of the cap.
    Cap,
    /// Connections kept back.
    Reserve,
    /// Who gets a token next.
    Admission,
    /// The quantum.
    Quantum,
    /// Shadow mode.
    Shadow,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setting::Cap => "cap",
            Setting::Reserve => "reserve",
            Setting::Admission => "admission",
            Setting::Quantum => "quantum",
            Setting::Shadow => "shadow",
        })
    }
}

/// What an operator wants overridden. The values are within their bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideRequest {
    /// First clears these.
    pub clear: Vec<Setting>,
    /// Upper bound of the cap.
    pub cap: Option<u32>,
    /// Connections kept back.
    pub reserve: Option<u32>,
    /// Who gets a token next.
    pub admission: Option<config::Admission>,
    /// The quantum; zero is strict order.
    pub quantum: Option<Duration>,
    /// Shadow mode.
    pub shadow: Option<bool>,
    /// What workloads may have; each at most once.
    pub workloads: Vec<WorkloadOverride>,
    /// How long it lasts. None: until it is cleared.
    pub duration: Option<Duration>,
}

/// An override in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideStatus {
    /// Setting and value.
    pub value: OverrideValue,
    /// Time until it ends.
    pub remaining: Option<Duration>,
}

/// One database: what the configuration says, and what operators say.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    configured: DatabaseConfig,
    operator: Operator,
}

/// Why a request is not done: it contradicts what is set otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// A database whose cap is static has no connections of others to keep back
    /// some from.
    NoReserve,
    /// The database has no workload of this name.
    UnknownWorkload {
        /// The name.
        name: Arc<str>,
        /// Those that it has.
        known: Vec<Arc<str>>,
    },
    /// A workload would have a floor that it may not hold.
    FloorAboveLimit {
        /// Its name.
        workload: Arc<str>,
        /// The floor there would be.
        floor: u32,
        /// The limit there would be.
        limit: u32,
    },
    /// Nothing can be kept of a floor of nothing.
    KeepWithoutFloor {
        /// Name of the workload.
        workload: Arc<str>,
    },
    /// The floors can never all be in force.
    FloorsAboveCap {
        /// All of them together.
        floors: u64,
        /// The upper bound of the cap.
        cap: u32,
    },
}

impl Layers {
    /// What a store has kept may be from another configuration: a reserve for
    /// a database that has none any more does no harm, the core ignores it.
    pub(super) fn new(configured: DatabaseConfig, operator: Operator) -> Layers {
        Layers { configured, operator }
    }

    /// What is to be made durable.
    pub(super) fn operator(&self) -> &Operator {
        &self.operator
    }

    pub(super) fn set_draining(&mut self, draining: bool) {
        self.operator.draining = draining;
    }

    /// Clears and sets overrides: all that is asked for, or nothing.
    pub(super) fn set(&mut self, request: &OverrideRequest, now_unix_ms: u64) -> Result<(), Contradiction> {
        if request.reserve.is_some() && self.configured.watched().is_none() {
            return Err(Contradiction::NoReserve);
        }
        let mut changed = self.clone();
        changed.put(request, now_unix_ms);
        workloads::check(request, self, &changed)?;
        *self = changed;
        Ok(())
    }

    fn put(&mut self, request: &OverrideRequest, now_unix_ms: u64) {
        self.operator.overrides.retain(|kept| !request.clears(&kept.value));
        let until_unix_ms = request.duration.map(|duration| now_unix_ms.saturating_add(millis(duration)));
        let values = [
            request.cap.map(OverrideValue::Cap),
            request.reserve.map(OverrideValue::Reserve),
            request.admission.map(|admission| OverrideValue::Admission(admission.to_string())),
            request.quantum.map(|quantum| OverrideValue::QuantumMs(millis(quantum))),
            request.shadow.map(OverrideValue::Shadow),
        ];
        let of_workloads = request.workloads.iter().flat_map(WorkloadOverride::overrides);
        for value in values.into_iter().flatten().chain(of_workloads) {
            self.operator.overrides.retain(|kept| !are_of_one_setting(&kept.value, &value));
            self.operator.overrides.push(Override { value, until_unix_ms });
        }
    }

    /// Ends overrides whose time has come. True if there were any.
    pub(super) fn expire(&mut self, now_unix_ms: u64) -> bool {
        let before = self.operator.overrides.len();
        self.operator.overrides.retain(|kept| kept.until_unix_ms.is_none_or(|until| until > now_unix_ms));
        self.operator.overrides.len() != before
    }

    /// When the next override ends.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.operator.overrides.iter().filter_map(|kept| kept.until_unix_ms).min()
    }

    pub(super) fn overrides(&self, now_unix_ms: u64) -> Vec<OverrideStatus> {
        let status = |kept: &Override| OverrideStatus {
            value: kept.value.clone(),
            remaining: kept
                .until_unix_ms
                .map(|until| Duration::from_millis(until.saturating_sub(now_unix_ms))),
        };
        self.operator.overrides.iter().map(status).collect()
    }

    /// What the core goes by.
    pub(super) fn settings(&self) -> DatabaseSettings {
        let mut cap = self.configured.cap_limit();
        let mut reserve = match &self.configured.source {
            Source::Static { .. } => 0,
            Source::Watched(watched) => watched.reserve,
        };
        let mut admission = self.configured.admission;
        let mut quantum = self.configured.quantum;
        let mut shadow = self.configured.shadow;
        let mut workloads = workloads::configured(&self.configured.workloads);
        for kept in &self.operator.overrides {
            match &kept.value {
                OverrideValue::Cap(value) => cap = Some(*value),
                OverrideValue::Reserve(value) => reserve = *value,
                // A name that this version does not know changes nothing.
                OverrideValue::Admission(name) => admission = admission_named(name).unwrap_or(admission),
                OverrideValue::QuantumMs(value) => quantum = Duration::from_millis(*value),
                OverrideValue::Shadow(value) => shadow = *value,
                OverrideValue::Workload { name, value } => workloads::apply(&mut workloads, name, value),
            }
        }
        DatabaseSettings {
            name: Arc::from(self.configured.name.as_str()),
            watched: self.configured.watched().is_some(),
            cap,
            reserve,
            admission: match admission {
                config::Admission::Fair => Admission::Fair { quantum },
                config::Admission::Strict => Admission::Fair { quantum: Duration::ZERO },
                config::Admission::Unfair => Admission::Unfair,
            },
            ttl: self.configured.ttl,
            on_loss: match self.configured.on_loss {
                config::LossPolicy::Keep => LossPolicy::Keep,
                config::LossPolicy::Fence => LossPolicy::Fence,
            },
            fence_grace: self.configured.fence_grace,
            draining: self.operator.draining,
            shadow,
            workloads: Workloads::new(workloads),
        }
    }
}

/// A switch as operators write it.
pub fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// The admission of this name, as in the configuration.
pub fn admission_named(name: &str) -> Option<config::Admission> {
    [config::Admission::Fair, config::Admission::Strict, config::Admission::Unfair]
        .into_iter()
        .find(|admission| admission.to_string() == name)
}

impl OverrideRequest {
    /// Whether anything is to be overridden, and not only cleared.
    pub fn sets_anything(&self) -> bool {
        let of_database = self.cap.is_some()
            || self.reserve.is_some()
            || self.admission.is_some()
            || self.quantum.is_some()
            || self.shadow.is_some();
        of_database || self.workloads.iter().any(WorkloadOverride::sets_anything)
    }

    fn clears(&self, kept: &OverrideValue) -> bool {
        let setting = match kept {
            OverrideValue::Cap(_) => Setting::Cap,
            OverrideValue::Reserve(_) => Setting::Reserve,
            OverrideValue::Admission(_) => Setting::Admission,
            OverrideValue::QuantumMs(_) => Setting::Quantum,
            OverrideValue::Shadow(_) => Setting::Shadow,
            OverrideValue::Workload { name, value } => {
                return self.workloads.iter().any(|workload| workload.clears(name, value));
            }
        };
        self.clear.contains(&setting)
    }
}

fn are_of_one_setting(one: &OverrideValue, other: &OverrideValue) -> bool {
    match (one, other) {
        (
            OverrideValue::Workload { name, value },
            OverrideValue::Workload { name: owner, value: of_other },
        ) => name == owner && discriminant(value) == discriminant(of_other),
        (one, other) => discriminant(one) == discriminant(other),
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DatabaseName;

    pub(super) fn layers() -> Layers {
        let configured = DatabaseConfig {
            name: DatabaseName::new("orders").expect("the name has the right form"),
            source: Source::Static { cap: 100 },
            admission: config::Admission::Fair,
            quantum: Duration::from_millis(100),
            ttl: Duration::from_secs(10),
            on_loss: config::LossPolicy::Fence,
            fence_grace: Duration::from_secs(30),
            shadow: false,
            workloads: Vec::new(),
        };
        Layers::new(configured, Operator::default())
    }

    #[test]
    fn overrides_lie_on_top_of_the_configuration() {
        let mut layers = layers();
        let request = OverrideRequest {
            cap: Some(7),
            admission: Some(config::Admission::Unfair),
            quantum: Some(Duration::from_millis(20)),
            shadow: Some(true),
            ..OverrideRequest::default()
        };
        layers.set(&request, 0).expect("the request is taken");
        assert!(layers.settings().shadow);
        assert_eq!(layers.settings().cap, Some(7));
        assert_eq!(layers.settings().admission, Admission::Unfair);

        // The quantum was kept for the time when admission is fair again.
        let fair = OverrideRequest { admission: Some(config::Admission::Fair), ..OverrideRequest::default() };
        layers.set(&fair, 0).expect("the request is taken");
        assert_eq!(layers.settings().admission, Admission::Fair { quantum: Duration::from_millis(20) });
        assert_eq!(layers.operator().overrides.len(), 4);

        let clear = [Setting::Cap, Setting::Admission, Setting::Quantum, Setting::Shadow].to_vec();
        layers
            .set(&OverrideRequest { clear, ..OverrideRequest::default() }, 0)
            .expect("the request is taken");
        assert_eq!(layers.settings(), self::layers().settings());
    }

    /// What `status` shows is what the core goes by, and that is the same in whatever
    /// order mode and quantum were set.
    #[test]
    fn the_mode_in_force_does_not_depend_on_the_order() {
        use config::Admission::{Fair, Strict, Unfair};
        let millis = Duration::from_millis;
        let set = |admission, quantum| OverrideRequest { admission, quantum, ..OverrideRequest::default() };
        for configured in [Fair, Strict, Unfair] {
            for mode in [None, Some(Fair), Some(Strict), Some(Unfair)] {
                for quantum in [None, Some(Duration::ZERO), Some(millis(20))] {
                    let in_force = |requests: &[OverrideRequest]| {
                        let mut layers = layers();
                        layers.configured.admission = configured;
                        for request in requests {
                            layers.set(request, 0).expect("the request is taken");
                        }
                        layers.settings().admission
                    };
                    let (first, second) = (set(mode, None), set(None, quantum));
                    let found = in_force(&[first.clone(), second.clone()]);
                    assert_eq!(found, in_force(&[second, first]));
                    assert_eq!(found, in_force(&[set(mode, quantum)]));
                    let expected = match mode.unwrap_or(configured) {
                        Fair => Admission::Fair { quantum: quantum.unwrap_or(millis(100)) },
                        Strict => Admission::Fair { quantum: Duration::ZERO },
                        Unfair => Admission::Unfair,
                    };
                    assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn clearing_comes_before_setting() {
        let mut layers = layers();
        let request =
            OverrideRequest { clear: vec![Setting::Cap], cap: Some(7), ..OverrideRequest::default() };
        layers.set(&request, 0).expect("the request is taken");
        assert_eq!(layers.settings().cap, Some(7));
    }

    #[test]
    fn an_override_ends_at_its_time() {
        let mut layers = layers();
        let duration = Some(Duration::from_secs(60));
        let short = OverrideRequest { cap: Some(7), duration, ..OverrideRequest::default() };
        let lasting = OverrideRequest { quantum: Some(Duration::ZERO), ..OverrideRequest::default() };
        layers.set(&short, 1_000).expect("the request is taken");
        layers.set(&lasting, 1_000).expect("the request is taken");
        assert_eq!(layers.next_expiry(), Some(61_000));
        assert_eq!(layers.overrides(41_000)[0].remaining, Some(Duration::from_secs(20)));

        assert!(!layers.expire(60_999));
        assert!(layers.expire(61_000));
        assert_eq!(layers.settings().cap, Some(100));
        assert_eq!(layers.settings().admission, Admission::Fair { quantum: Duration::ZERO });
        assert_eq!(layers.next_expiry(), None);
    }

    #[test]
    fn a_static_cap_has_no_reserve() {
        let request = OverrideRequest { cap: Some(1), reserve: Some(5), ..OverrideRequest::default() };
        let mut layers = layers();
        assert_eq!(layers.set(&request, 0), Err(Contradiction::NoReserve));
        assert_eq!(layers.operator(), &Operator::default());
    }
}
