#![allow(clippy::unwrap_used)]

use super::*;

const WIDTH: usize = 96;
const ROWS: usize = 40;

fn prg(seed: u8) -> Prg {
    Prg::from_seed([seed; 16])
}

fn secrets() -> Secrets {
    Secrets::random(&mut prg(9))
}

fn owner() -> (Owner, Table) {
    Owner::new(Params::linear().unwrap(), WIDTH, ROWS, Seed([4; 32]), &secrets()).unwrap()
}

/// Whole numbers within +-4 at 30 fractional bits.
fn table() -> (Vec<i64>, Owner, Copy) {
    let mut rng = prg(1);
    let values: Vec<i64> = (0..ROWS * WIDTH).map(|_| ((rng.next_u64() >> 61) as i64 - 4) << 30).collect();
    let (owner, table) = owner();
    let rows = owner.rows(0, &values, &secrets()).unwrap();
    (values, owner, Copy { table, rows })
}

/// A client's table with its rows.
struct Copy {
    table: Table,
    rows: Vec<u64>,
}

impl Copy {
    fn row(&self, id: usize) -> &[u64] {
        &self.rows[id * WIDTH..(id + 1) * WIDTH]
    }

    fn query(&self, id: usize, prg: &mut Prg) -> Result<(Query, Vec<u64>)> {
        self.table.query(id, self.row(id), prg)
    }

    fn query_with(&self, id: usize, rho: &[u64], prg: &mut Prg) -> Result<Query> {
        self.table.query_with(id, self.row(id), rho, prg)
    }
}

/// Rows that are made part by part are those that are made at once.
#[test]
fn a_table_may_be_made_in_parts() {
    let (values, _, whole) = table();
    let (owner, _) = owner();
    let parts = [0..7, 7..8, 8..ROWS];
    let rows = parts.map(|p| owner.rows(p.start, &values[p.start * WIDTH..p.end * WIDTH], &secrets()).unwrap());
    assert!(rows.concat() == whole.rows);
}

#[test]
fn shares_add_up_to_the_row_within_the_noise() {
    let (values, owner, table) = table();
    let (params, mut rng) = (Params::linear().unwrap(), prg(2));
    let ring = params.ring();
    let mut squares = 0.0;
    for id in 0..ROWS {
        let (query, client) = table.query(id, &mut rng).unwrap();
        assert_eq!((query.mask.len(), query.row.len()), (2048, WIDTH));
        let server = owner.share(&query).unwrap();
        for i in 0..WIDTH {
            let error =
                ring.to_signed(ring.sub(ring.add(client[i], server[i]), ring.from_signed(values[id * WIDTH + i])));
            assert!((error.abs() as f64) < 6.5 * noise(&params), "{error}");
            squares += (error as f64).powi(2);
        }
    }
    let ratio = (squares / (ROWS * WIDTH) as f64).sqrt() / noise(&params);
    // e_pk and S are one draw for the whole table, which is the larger part of the spread here.
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn wrong_sizes_are_refused() {
    let (_, owner, table) = table();
    let short = &table.row(0)[1..];
    assert!(matches!(
        table.table.query(0, short, &mut prg(3)),
        Err(RlweError::Length { expected: WIDTH, got: 95, .. })
    ));
    assert!(matches!(owner.rows(0, &[0; WIDTH + 1], &secrets()), Err(RlweError::Length { .. })));
    assert!(matches!(
        owner.rows(ROWS - 1, &[0; 2 * WIDTH], &secrets()),
        Err(RlweError::Length { expected: ROWS, got: 41, .. })
    ));
    let (mut query, _) = table.query(0, &mut prg(3)).unwrap();
    query.mask.pop();
    assert!(matches!(owner.share(&query), Err(RlweError::Length { .. })));
    let params = Params::linear().unwrap();
    for width in [0, 2049] {
        assert!(matches!(Owner::new(params, width, 1, Seed([4; 32]), &secrets()), Err(RlweError::Width { .. })));
    }
    assert!(Table::new(params, Seed([0; 32]), 3, vec![0; 2047]).is_err());
}

/// The row nearest to what the server decrypts.
fn nearest(values: &[i64], phase: &[u64]) -> (usize, f64) {
    let ring = Params::linear().unwrap().ring();
    let distance = |id: usize| -> f64 {
        let row = &values[id * WIDTH..(id + 1) * WIDTH];
        row.iter().zip(phase).map(|(&v, &p)| (ring.to_signed(ring.sub(p, ring.from_signed(v))) as f64).powi(2)).sum()
    };
    let id = (0..ROWS).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap();
    (id, (distance(id) / WIDTH as f64).sqrt())
}

#[test]
fn a_row_without_its_mask_is_recognised() {
    let (values, owner, table) = table();
    let bare = table.query_with(17, &[0; WIDTH], &mut prg(4)).unwrap();
    let (id, distance) = nearest(&values, &owner.share(&bare).unwrap());
    assert!(id == 17 && distance < 1e3);
    let (masked, _) = table.query(17, &mut prg(4)).unwrap();
    let (_, distance) = nearest(&values, &owner.share(&masked).unwrap());
    assert!(distance > 1e12, "no row is near: {distance}");
}

/// The masks of the rows are public: a query that has one as it is, or with noise alone, names its token,
/// whatever hides the row.
#[test]
fn a_query_without_its_encryption_of_zero_names_the_token() {
    let (_, _, table) = table();
    let params = Params::linear().unwrap();
    let ring = params.ring();
    let names = |mask: &[u64]| -> Vec<usize> {
        let near = |id: usize| {
            let own = row_mask(&params, table.table.seed(), id);
            mask.iter().zip(own).all(|(&a, b)| ring.to_signed(ring.sub(a, b)).abs() < 100)
        };
        (0..ROWS).filter(|&id| near(id)).collect()
    };
    let mut bare = row_mask(&params, table.table.seed(), 17);
    assert_eq!(names(&bare), [17]);
    add_noise(&params, &mut bare, &mut prg(8));
    assert_eq!(names(&bare), [17], "noise alone does not help");
    let (query, _) = table.query(17, &mut prg(8)).unwrap();
    assert_eq!(names(&query.mask), [0usize; 0]);
}

/// The server knows each row's own noise and correlates with it. One document sent many times, as a client
/// may.
#[test]
fn a_mask_on_the_message_alone_is_not_enough() {
    let (values, owner, table) = table();
    let params = Params::linear().unwrap();
    let (ring, low) = (params.ring(), (1u64 << 30) - 1);
    // What the server can compute from its table: each row's e_v. A zero query decrypts a row as it is.
    let own: Vec<Vec<i64>> = (0..ROWS)
        .map(|id| {
            let query = Query { mask: row_mask(&params, table.table.seed(), id), row: table.row(id).to_vec() };
            let phase = owner.share(&query).unwrap();
            let row = &values[id * WIDTH..(id + 1) * WIDTH];
            phase.iter().zip(row).map(|(&p, &v)| ring.to_signed(ring.sub(p, ring.from_signed(v)))).collect()
        })
        .collect();
    // The values are multiples of 2^30, so that a mask of the message alone leaves the low bits open.
    let rank = |whole: bool| -> usize {
        let mut rng = prg(5);
        let mut scores = vec![0.0; ROWS];
        for _ in 0..1500 {
            let mut rho = rng.ring_vec(ring, WIDTH);
            if !whole {
                rho.iter_mut().for_each(|r| *r &= !low);
            }
            let query = table.query_with(17, &rho, &mut rng).unwrap();
            let phase = owner.share(&query).unwrap();
            for (score, own) in scores.iter_mut().zip(&own) {
                for (&p, &e) in phase.iter().zip(own) {
                    let rest = p & low;
                    let centred = if rest > low / 2 { rest as i64 - low as i64 - 1 } else { rest as i64 };
                    *score += centred as f64 * e as f64;
                }
            }
        }
        scores.iter().filter(|&&s| s > scores[17]).count()
    };
    assert_eq!(rank(false), 0, "the matched filter finds the row");
    assert!(rank(true) > 0, "under the whole mask the row is one of many");
}

#[test]
fn one_r_for_two_tokens_names_the_pair() {
    let (_, _, table) = table();
    let params = Params::linear().unwrap();
    let difference = |a: &Query, b: &Query| -> Vec<u64> {
        a.mask.iter().zip(&b.mask).map(|(&a, &b)| params.ring().sub(a, b)).collect()
    };
    let masks: Vec<Vec<u64>> = (0..ROWS).map(|id| row_mask(&params, table.table.seed(), id)).collect();
    let names = |d: &[u64]| -> Option<(usize, usize)> {
        let pairs = (0..ROWS).flat_map(|a| (0..ROWS).map(move |b| (a, b)));
        pairs.into_iter().find(|&(a, b)| (0..8).all(|i| params.ring().sub(masks[a][i], masks[b][i]) == d[i]))
    };
    let zero = [0; WIDTH];
    let query = |id, seed| table.query_with(id, &zero, &mut prg(seed)).unwrap();
    assert_eq!(names(&difference(&query(3, 6), &query(29, 6))), Some((3, 29)));
    assert_eq!(names(&difference(&query(3, 6), &query(29, 7))), None);
}
