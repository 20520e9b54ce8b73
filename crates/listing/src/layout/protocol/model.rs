//! The rules, tried out: every interleaving of every step of several actors on one name, each of which may be killed
//! between any two steps.
//!
//! The actors run the very functions the file system does, against a disk of two places. An actor's state is what its
//! steps so far were answered: to take one step more, its function runs again from the start with those answers and is
//! stopped behind the first new one. Equal states are visited once, which makes the search complete and small.
//!
//! What is demanded: never two different files of one name; and whatever the actors were told could have been told by
//! one file that is looked at, replaced and removed by one after the other, in an order that respects who had finished
//! before whom began (linearizability). What the killed had begun may have happened or not.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::{Disk, Moved, Place, delete, first_of, look, put, shift};

/// The name's two places, and the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    flat: Option<u8>,
    sharded: Option<u8>,
    target: Place,
    inside: u8,
    moves: Moves,
}

/// What the file system offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Moves {
    Rename,
    LinkAndUnlink,
}

impl World {
    fn at(&mut self, place: Place) -> &mut Option<u8> {
        match place {
            Place::Flat => &mut self.flat,
            Place::Sharded => &mut self.sharded,
        }
    }

    fn give_name(&mut self, from: Place, to: Place) -> Moved {
        match (*self.at(from), *self.at(to)) {
            (None, _) => Moved::Absent,
            (Some(_), Some(_)) => Moved::Taken,
            (file, None) => {
                *self.at(to) = file;
                Moved::Moved
            }
        }
    }
}

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Look,
    /// Looks once in each place and takes that for an answer: to show that the search would notice.
    HastyLook,
    /// Writes without the gate: likewise.
    RashPut(u8),
    Put(u8),
    Delete,
    /// Moves files to this place until none is left at the other.
    Convert(Place),
}

/// What an actor was told in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Looked(Option<u8>),
    Put(u8),
    Deleted(bool),
    Converted,
}

/// What a step was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Entered(Place),
    Moved(Moved),
    Same(Option<bool>),
    Found(Option<u8>),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Running,
    Finished(Outcome),
    Killed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Actor {
    work: Work,
    answers: Vec<Answer>,
    /// Whether it is inside the gate.
    inside: bool,
    /// Which actors, as bits, had finished when it took its first step.
    before: u8,
    fate: Fate,
}

/// Why an actor's function did not come to its end.
#[derive(Debug, PartialEq, Eq)]
enum Pause {
    /// It has taken its step.
    Stepped,
    /// It waits for the gate.
    Blocked,
}

/// The disk as one actor sees it during one step.
struct Seat {
    world: RefCell<World>,
    answers: RefCell<Vec<Answer>>,
    next: Cell<usize>,
    stepped: Cell<bool>,
    inside: Cell<bool>,
    /// The file it writes.
    file: u8,
}

impl Seat {
    /// Answers from memory, or takes the one new step.
    fn step(&self, act: impl FnOnce(&mut World) -> Option<Answer>) -> Result<Answer, Pause> {
        let at = self.next.replace(self.next.get() + 1);
        if let Some(answer) = self.answers.borrow().get(at) {
            return Ok(*answer);
        }
        if self.stepped.replace(true) {
            return Err(Pause::Stepped);
        }
        let answer = act(&mut self.world.borrow_mut()).ok_or(Pause::Blocked)?;
        self.answers.borrow_mut().push(answer);
        Ok(answer)
    }

    fn read(&self, place: Place) -> Result<Option<u8>, Pause> {
        match self.step(|world| Some(Answer::Found(*world.at(place))))? {
            Answer::Found(file) => Ok(file),
            other => panic!("{other:?} to a look"),
        }
    }

    /// Turns the direction, which waits until nobody is inside.
    fn turn(&self, target: Place) -> Result<(), Pause> {
        let turned = self.step(|world| {
            world.target = target;
            (world.inside == 0).then_some(Answer::Done)
        });
        turned.map(drop)
    }
}

impl Disk for Seat {
    type Error = Pause;

    fn gated<T>(&self, work: impl FnOnce(Place) -> Result<T, Pause>) -> Result<T, Pause> {
        let entered = self.step(|world| {
            world.inside += 1;
            Some(Answer::Entered(world.target))
        })?;
        let Answer::Entered(target) = entered else { panic!("{entered:?} to an entry") };
        self.inside.set(true);
        let done = work(target)?;
        self.step(|world| {
            world.inside -= 1;
            Some(Answer::Done)
        })?;
        self.inside.set(false);
        Ok(done)
    }

    fn rename_exclusively(&self, from: Place, to: Place) -> Result<Option<Moved>, Pause> {
        if self.world.borrow().moves == Moves::LinkAndUnlink {
            return Ok(None);
        }
        let moved = self.step(|world| {
            let moved = world.give_name(from, to);
            if moved == Moved::Moved {
                *world.at(from) = None;
            }
            Some(Answer::Moved(moved))
        })?;
        let Answer::Moved(moved) = moved else { panic!("{moved:?} to a move") };
        Ok(Some(moved))
    }

    fn link(&self, from: Place, to: Place) -> Result<Moved, Pause> {
        match self.step(|world| Some(Answer::Moved(world.give_name(from, to))))? {
            Answer::Moved(moved) => Ok(moved),
            other => panic!("{other:?} to a link"),
        }
    }

    fn same(&self, from: Place, to: Place) -> Result<Option<bool>, Pause> {
        let same = self.step(|world| {
            let (from, to) = (*world.at(from), *world.at(to));
            Some(Answer::Same(from.map(|_| from == to)))
        })?;
        let Answer::Same(same) = same else { panic!("{same:?} to a comparison") };
        Ok(same)
    }

    fn install(&self, place: Place) -> Result<(), Pause> {
        let file = self.file;
        let installed = self.step(|world| {
            *world.at(place) = Some(file);
            Some(Answer::Done)
        });
        installed.map(drop)
    }

    fn remove(&self, place: Place) -> Result<bool, Pause> {
        match self.step(|world| Some(Answer::Found(world.at(place).take())))? {
            Answer::Found(file) => Ok(file.is_some()),
            other => panic!("{other:?} to a removal"),
        }
    }
}

fn perform(work: Work, seat: &Seat) -> Result<Outcome, Pause> {
    match work {
        Work::Look => look(seat, |place| seat.read(place)).map(Outcome::Looked),
        Work::HastyLook => {
            first_of(&[Place::Flat, Place::Sharded], &mut |place| seat.read(place)).map(Outcome::Looked)
        }
        Work::Put(file) => put(seat).map(|()| Outcome::Put(file)),
        Work::RashPut(file) => {
            let target = seat.gated(Ok)?;
            shift(seat, target.other(), target)?;
            seat.install(target).map(|()| Outcome::Put(file))
        }
        Work::Delete => delete(seat).map(Outcome::Deleted),
        Work::Convert(target) => {
            seat.turn(target)?;
            while seat.read(target.other())?.is_some() && shift(seat, target.other(), target)? != Moved::Taken
            {
            }
            Ok(Outcome::Converted)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    /// The file there was at first.
    first: Option<u8>,
    actors: Vec<Actor>,
}

impl State {
    fn new(moves: Moves, place: Place, first: Option<u8>, works: &[Work]) -> Self {
        let mut world = World { flat: None, sharded: None, target: place, inside: 0, moves };
        *world.at(place) = first;
        let actor = |work: &Work| Actor {
            work: *work,
            answers: Vec::new(),
            inside: false,
            before: 0,
            fate: Fate::Running,
        };
        Self { world, first, actors: works.iter().map(actor).collect() }
    }

    fn finished(&self) -> u8 {
        let done =
            |(index, actor): (usize, &Actor)| u8::from(matches!(actor.fate, Fate::Finished(_))) << index;
        self.actors.iter().enumerate().map(done).sum()
    }

    /// One conversion at a time: a later one starts when the earlier are over.
    fn may_run(&self, index: usize) -> bool {
        let converts = |actor: &Actor| matches!(actor.work, Work::Convert(_));
        let earlier_runs = self.actors[..index].iter().any(|a| converts(a) && a.fate == Fate::Running);
        self.actors[index].fate == Fate::Running && !(converts(&self.actors[index]) && earlier_runs)
    }

    /// The state after actor `index` has taken its next step, if it can.
    fn stepped(&self, index: usize) -> Option<Self> {
        let mut next = self.clone();
        let finished = self.finished();
        let actor = &mut next.actors[index];
        if actor.answers.is_empty() {
            actor.before = finished;
        }
        let file = if let Work::Put(file) | Work::RashPut(file) = actor.work { file } else { 0 };
        let seat = Seat {
            world: RefCell::new(self.world),
            answers: RefCell::new(std::mem::take(&mut actor.answers)),
            next: Cell::new(0),
            stepped: Cell::new(false),
            inside: Cell::new(false),
            file,
        };
        match perform(actor.work, &seat) {
            Ok(outcome) => actor.fate = Fate::Finished(outcome),
            Err(Pause::Stepped) => {}
            Err(Pause::Blocked) => return None,
        }
        actor.inside = seat.inside.get();
        actor.answers = seat.answers.into_inner();
        next.world = seat.world.into_inner();
        Some(next)
    }

    /// The state after actor `index` was killed: the kernel takes it out of the gate.
    fn killed(&self, index: usize) -> Self {
        let mut next = self.clone();
        next.world.inside -= u8::from(std::mem::take(&mut next.actors[index].inside));
        next.actors[index].fate = Fate::Killed;
        next
    }

    fn has_two(&self) -> bool {
        let World { flat, sharded, .. } = self.world;
        flat.is_some() && sharded.is_some() && flat != sharded
    }

    /// Whether the actors `left`, as bits, can have happened one after the other, from `file` to what is there now.
    fn explained(&self, left: u8, file: Option<u8>) -> bool {
        let optional = |index: usize| self.actors[index].fate == Fate::Killed;
        let indices = || (0..self.actors.len()).filter(move |index| left & 1 << index != 0);
        if file == self.world.flat.or(self.world.sharded) && indices().all(optional) {
            return true;
        }
        let mut ready = indices().filter(|index| self.actors[*index].before & left == 0);
        ready.any(|index| {
            let (rest, actor) = (left & !(1 << index), &self.actors[index]);
            match (actor.fate, actor.work) {
                (Fate::Finished(Outcome::Looked(seen)), _) => seen == file && self.explained(rest, file),
                (Fate::Finished(Outcome::Put(new)), _) => self.explained(rest, Some(new)),
                (Fate::Finished(Outcome::Deleted(was)), _) => {
                    was == file.is_some() && self.explained(rest, None)
                }
                (Fate::Killed, Work::Put(new)) => self.explained(rest, Some(new)),
                (Fate::Killed, Work::Delete) => self.explained(rest, None),
                _ => self.explained(rest, file),
            }
        })
    }
}

/// Visits every state that can come of `start`, with up to `kills` kills.
fn explore(start: &State, kills: u32) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![(start.clone(), kills)];
    while let Some((state, kills)) = open.pop() {
        if !seen.insert((state.clone(), kills)) {
            continue;
        }
        let running: Vec<usize> = (0..state.actors.len()).filter(|index| state.may_run(*index)).collect();
        if state.has_two() {
            return Err(format!("two files of one name: {state:?}"));
        }
        if running.is_empty() {
            let all = u8::MAX >> (8 - state.actors.len());
            if !state.explained(all, state.first) {
                return Err(format!("cannot have happened: {state:?}"));
            }
        }
        let steps: Vec<State> = running.iter().filter_map(|index| state.stepped(*index)).collect();
        if steps.is_empty() && !running.is_empty() {
            return Err(format!("nobody can go on: {state:?}"));
        }
        open.extend(steps.into_iter().map(|next| (next, kills)));
        if kills > 0 {
            open.extend(running.iter().map(|index| (state.killed(*index), kills - 1)));
        }
    }
    Ok(seen.len())
}

const TO_SHARDED: Work = Work::Convert(Place::Sharded);
const TO_FLAT: Work = Work::Convert(Place::Flat);

/// All that is asked of the rules, for actors beside conversions there, back and there again.
#[track_caller]
fn holds(actors: &[Work]) {
    for moves in [Moves::Rename, Moves::LinkAndUnlink] {
        for (place, turns) in [
            (Place::Flat, [TO_SHARDED, TO_FLAT, TO_SHARDED]),
            (Place::Sharded, [TO_FLAT, TO_SHARDED, TO_FLAT]),
        ] {
            for first in [None, Some(9)] {
                let works = [&turns[..], actors].concat();
                let states = explore(&State::new(moves, place, first, &works), 2);
                assert!(states.unwrap_or_else(|found| panic!("{found}")) > 100);
            }
        }
    }
}

#[test]
fn readers_find_what_is_there_while_it_moves_to_and_fro() {
    holds(&[Work::Look, Work::Look]);
}

#[test]
fn a_writer_and_a_reader_see_one_file() {
    holds(&[Work::Put(1), Work::Look]);
}

#[test]
fn a_deleter_and_a_reader_see_one_file() {
    holds(&[Work::Delete, Work::Look]);
}

#[test]
fn two_writers_leave_one_file() {
    holds(&[Work::Put(1), Work::Put(2)]);
}

#[test]
fn a_writer_and_a_deleter_leave_one_file_or_none() {
    holds(&[Work::Put(1), Work::Delete]);
}

#[test]
fn the_search_notices_a_reader_who_does_not_look_again() {
    let start = State::new(Moves::Rename, Place::Sharded, Some(9), &[TO_FLAT, Work::HastyLook]);
    assert!(explore(&start, 0).unwrap_err().contains("cannot have happened"));
}

#[test]
fn the_search_notices_a_writer_outside_the_gate() {
    let works = [TO_SHARDED, TO_FLAT, Work::RashPut(1), Work::Put(2)];
    let start = State::new(Moves::Rename, Place::Flat, Some(9), &works);
    assert!(explore(&start, 0).unwrap_err().contains("two files of one name"));
}
