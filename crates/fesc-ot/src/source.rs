//! The two sources of COTs, for each role, and their set-up.

use fesc_net::Channel;
use fesc_ring::Prg;
use zeroize::Zeroize;

use crate::iknp::{self, IknpReceiver, IknpSender};
use crate::messages::{TAG_IKNP, TAG_TREES};
use crate::params::SilentParams;
use crate::session::Session;
use crate::silent::Iteration;
use crate::stock::CotSource;
use crate::{CotKind, OtCost, OtError, base};

/// What set-up costs, exactly.
pub(crate) fn setup_cost(kind: CotKind, params: &SilentParams) -> OtCost {
    match kind {
        CotKind::Iknp => base::cost(),
        CotKind::Silent => base::cost()
            .then(iknp::cost(params.first().reserve()))
            .then(Iteration::cost_once(params.first(), params.main().reserve())),
    }
}

pub(crate) enum SenderSource {
    Iknp(IknpSender),
    Silent { iteration: Box<Iteration>, delta: u128, prg: Box<Prg> },
}

impl SenderSource {
    /// Runs set-up with a fresh `delta`.
    pub(crate) fn setup(
        ch: &mut Channel,
        kind: CotKind,
        params: &SilentParams,
        delta: u128,
        prg: &mut Prg,
    ) -> Result<(Session, Self), OtError> {
        let (session, mut keys) = base::receive(ch, kind.code(), delta, prg)?;
        let mut source = SenderSource::Iknp(IknpSender::new(delta, &keys));
        keys.zeroize();
        if kind == CotKind::Silent {
            let wrap = |iteration, prg: &mut Prg| SenderSource::Silent {
                iteration: Box::new(iteration),
                delta,
                prg: Box::new(prg.fork()),
            };
            source = wrap(first_iteration(&mut source, ch, params, &session)?, prg);
            source = wrap(main_iteration(&mut source, ch, params, &session)?, prg);
        }
        Ok((session, source))
    }
}

impl CotSource for SenderSource {
    fn refill(&mut self, ch: &mut Channel, missing: usize, out: &mut Vec<u128>) -> Result<(), OtError> {
        match self {
            SenderSource::Iknp(s) => {
                let batch = iknp::batch(missing);
                let message = ch.recv(TAG_IKNP, iknp::message_len(batch))?;
                s.extend(batch, &message, out);
            }
            SenderSource::Silent { iteration, delta, prg } => ch.send(TAG_TREES, iteration.send(*delta, prg, out))?,
        }
        Ok(())
    }

    fn most(&self, missing: usize) -> usize {
        match self {
            SenderSource::Iknp(_) => iknp::batch(missing),
            SenderSource::Silent { iteration, .. } => iteration.most(),
        }
    }

    fn cost(&self, missing: usize) -> OtCost {
        match self {
            SenderSource::Iknp(_) => iknp::cost(missing),
            SenderSource::Silent { iteration, .. } => iteration.cost(missing),
        }
    }

    fn set_parallel(&mut self, on: bool) {
        if let SenderSource::Silent { iteration, .. } = self {
            iteration.parallel = on;
        }
    }
}

impl Drop for SenderSource {
    fn drop(&mut self) {
        match self {
            SenderSource::Silent { delta, .. } => delta.zeroize(),
            SenderSource::Iknp(s) => s.wipe(),
        }
    }
}

pub(crate) enum ReceiverSource {
    Iknp(IknpReceiver),
    Silent(Box<Iteration>),
}

impl ReceiverSource {
    /// Runs set-up.
    pub(crate) fn setup(
        ch: &mut Channel,
        kind: CotKind,
        params: &SilentParams,
        prg: &mut Prg,
    ) -> Result<(Session, Self), OtError> {
        let (session, mut keys) = base::send(ch, kind.code(), prg)?;
        let mut source = ReceiverSource::Iknp(IknpReceiver::new(&keys));
        keys.zeroize();
        if kind == CotKind::Silent {
            source = ReceiverSource::Silent(Box::new(first_iteration(&mut source, ch, params, &session)?));
            source = ReceiverSource::Silent(Box::new(main_iteration(&mut source, ch, params, &session)?));
        }
        Ok((session, source))
    }
}

impl CotSource for ReceiverSource {
    fn refill(&mut self, ch: &mut Channel, missing: usize, out: &mut Vec<u128>) -> Result<(), OtError> {
        match self {
            ReceiverSource::Iknp(s) => {
                let message = s.extend(iknp::batch(missing), out);
                ch.send(TAG_IKNP, message)?;
            }
            ReceiverSource::Silent(iteration) => {
                let message = ch.recv(TAG_TREES, iteration.message_len())?;
                iteration.receive(&message, out);
            }
        }
        Ok(())
    }

    fn most(&self, missing: usize) -> usize {
        match self {
            ReceiverSource::Iknp(_) => iknp::batch(missing),
            ReceiverSource::Silent(iteration) => iteration.most(),
        }
    }

    fn cost(&self, missing: usize) -> OtCost {
        match self {
            ReceiverSource::Iknp(_) => iknp::cost(missing),
            ReceiverSource::Silent(iteration) => iteration.cost(missing),
        }
    }

    fn set_parallel(&mut self, on: bool) {
        if let ReceiverSource::Silent(iteration) = self {
            iteration.parallel = on;
        }
    }
}

/// The small iteration, fed by IKNP.
fn first_iteration(
    source: &mut impl CotSource,
    ch: &mut Channel,
    params: &SilentParams,
    session: &Session,
) -> Result<Iteration, OtError> {
    let mut start = collect(source, ch, params.first().reserve())?;
    let (code, trees) = (session.hash(b"first code", &[]), session.hash(b"first trees", &[]));
    let iteration = Iteration::new(*params.first(), code, trees, &start, false);
    start.zeroize();
    Ok(iteration)
}

/// The repeating iteration, fed by the small one.
fn main_iteration(
    source: &mut impl CotSource,
    ch: &mut Channel,
    params: &SilentParams,
    session: &Session,
) -> Result<Iteration, OtError> {
    let mut start = collect(source, ch, params.main().reserve())?;
    let (code, trees) = (session.hash(b"code", &[]), session.hash(b"trees", &[]));
    let iteration = Iteration::new(*params.main(), code, trees, &start, true);
    start.zeroize();
    Ok(iteration)
}

/// Exactly `count` COTs; a rest is dropped.
fn collect(source: &mut impl CotSource, ch: &mut Channel, count: usize) -> Result<Vec<u128>, OtError> {
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        let missing = count - out.len();
        source.refill(ch, missing, &mut out)?;
    }
    out.truncate(count);
    Ok(out)
}
