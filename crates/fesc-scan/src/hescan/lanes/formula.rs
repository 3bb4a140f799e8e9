//! How many key switches a scan has, by formula.

use super::Lanes;

/// Key switches by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeySwitches {
    /// Summaries of leaves, and the network over leaves, of all columns.
    pub network: u64,
    /// The network over blocks, of all columns: half of it rotations, and the shift.
    pub blocks: u64,
    /// Outputs: sums with C, and what joins them.
    pub outputs: u64,
    /// Scores.
    pub scores: u64,
    /// x times decays: for summaries, and for outputs.
    pub weighted: u64,
    /// Rotations that sum coordinates.
    pub fold: u64,
}

impl Lanes {
    /// All key switches but those of decays, which are a few per block of channels.
    pub fn formula(&self) -> KeySwitches {
        let l = &self.layout;
        let log = |x: usize| u64::from(x.ilog2());
        let [t, w, n] = [l.tokens, l.params.leaf, self.leaves()].map(|x| x as u64);
        let (kappa, columns) = (l.params.blocks, (l.channel_blocks * l.chunks) as u64);
        let many = u64::from(kappa > 1);
        let results = l.channel_blocks as u64 * t;
        KeySwitches {
            network: columns * (n + 2 * n - 2 - log(n as usize)),
            blocks: columns * (2 * log(kappa) + many),
            outputs: l.channel_blocks as u64 * (t + (t - w) + many * t),
            scores: l.patterns.len() as u64 * n * w * (w + 1) / 2,
            weighted: l.channel_blocks as u64 * (t / 2 * log(w as usize) + n * w * (w - 1) / 2),
            fold: if l.params.fold { results * log(l.params.coordinates) } else { 0 },
        }
    }
}

impl KeySwitches {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.network + self.blocks + self.outputs + self.scores + self.weighted + self.fold
    }
}
