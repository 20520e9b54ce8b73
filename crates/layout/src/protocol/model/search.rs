//! Model-checks the protocol: runs its actors in every order in which they can act, and checks each
//! outcome.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use super::super::DiskSteps as _;
use super::super::{FilePlace, MoveResult, delete, find_file, first_of, move_file, put};
use super::{ActorView, Answer, ModelDisk, Moves, StopReason};

/// The operation of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Look,
    /// Looks only once in each place. This is a mistake, which the search must find.
    HastyLook,
    /// Finds the target under the gate, but writes outside of it. This is another mistake that the
    /// search must find.
    RashPut(u8),
    Put(u8),
    Delete,
    /// Moves files to this place until no file is left at the other place.
    Convert(FilePlace),
}

/// Result that an actor returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Looked(Option<u8>),
    Put(u8),
    Deleted(bool),
    Converted,
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
    /// True if the actor is inside the gate.
    inside: bool,
    /// Bit mask of the actors that had finished when this one took its first step.
    before: u8,
    fate: Fate,
}

fn perform(work: Work, view: &ActorView) -> Result<Outcome, StopReason> {
    match work {
        Work::Look => find_file(view, |place| view.read(place)).map(Outcome::Looked),
        Work::HastyLook => first_of(&[FilePlace::Flat, FilePlace::Sharded], &mut |place| view.read(place))
            .map(Outcome::Looked),
        Work::Put(file) => put(view).map(|()| Outcome::Put(file)),
        Work::RashPut(file) => {
            let target = view.gated(Ok)?;
            move_file(view, target.other(), target)?;
            view.install(target).map(|()| Outcome::Put(file))
        }
        Work::Delete => delete(view).map(Outcome::Deleted),
        Work::Convert(target) => {
            view.set_target(target)?;
            while view.read(target.other())?.is_some()
                && move_file(view, target.other(), target)? != MoveResult::Taken
            {}
            Ok(Outcome::Converted)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SearchState {
    world: ModelDisk,
    /// The file that exists at the start.
    first: Option<u8>,
    actors: Vec<Actor>,
}

impl SearchState {
    fn new(moves: Moves, place: FilePlace, first: Option<u8>, works: &[Work]) -> Self {
        let mut world = ModelDisk { flat: None, sharded: None, target: place, inside: 0, moves };
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

    /// True if actor `index` may take a step. A conversion starts only after the earlier
    /// conversions have ended.
    fn may_run(&self, index: usize) -> bool {
        let converts = |actor: &Actor| matches!(actor.work, Work::Convert(_));
        let earlier_runs = self.actors[..index].iter().any(|a| converts(a) && a.fate == Fate::Running);
        self.actors[index].fate == Fate::Running && !(converts(&self.actors[index]) && earlier_runs)
    }

    /// Returns the state after the next step of actor `index`. `None` if it cannot take one.
    fn stepped(&self, index: usize) -> Option<Self> {
        let mut next = self.clone();
        let finished = self.finished();
        let actor = &mut next.actors[index];
        if actor.answers.is_empty() {
            actor.before = finished;
        }
        let file = if let Work::Put(file) | Work::RashPut(file) = actor.work { file } else { 0 };
        let view = ActorView {
            world: RefCell::new(self.world),
            answers: RefCell::new(std::mem::take(&mut actor.answers)),
            next: Cell::new(0),
            stepped: Cell::new(false),
            inside: Cell::new(false),
            file,
        };
        match perform(actor.work, &view) {
            Ok(outcome) => actor.fate = Fate::Finished(outcome),
            Err(StopReason::Stepped) => {}
            Err(StopReason::Blocked) => return None,
        }
        actor.inside = view.inside.get();
        actor.answers = view.answers.into_inner();
        next.world = view.world.into_inner();
        Some(next)
    }

    /// Returns the state after actor `index` was killed. The kernel releases the actor's hold on
    /// the gate.
    fn killed(&self, index: usize) -> Self {
        let mut next = self.clone();
        next.world.inside -= u8::from(std::mem::take(&mut next.actors[index].inside));
        next.actors[index].fate = Fate::Killed;
        next
    }

    fn has_two_files(&self) -> bool {
        let ModelDisk { flat, sharded, .. } = self.world;
        flat.is_some() && sharded.is_some() && flat != sharded
    }

    /// True if the actors in the bit mask `left` can have run one after the other, in some order,
    /// beginning with the file `file` and ending with the file that the world holds now.
    fn is_explained(&self, left: u8, file: Option<u8>) -> bool {
        let optional = |index: usize| self.actors[index].fate == Fate::Killed;
        let indices = || (0..self.actors.len()).filter(move |index| left & 1 << index != 0);
        if file == self.world.flat.or(self.world.sharded) && indices().all(optional) {
            return true;
        }
        let mut ready = indices().filter(|index| self.actors[*index].before & left == 0);
        ready.any(|index| {
            let (rest, actor) = (left & !(1 << index), &self.actors[index]);
            match (actor.fate, actor.work) {
                (Fate::Finished(Outcome::Looked(seen)), _) => seen == file && self.is_explained(rest, file),
                (Fate::Finished(Outcome::Put(new)), _) => self.is_explained(rest, Some(new)),
                (Fate::Finished(Outcome::Deleted(was)), _) => {
                    was == file.is_some() && self.is_explained(rest, None)
                }
                (Fate::Killed, Work::Put(new)) => self.is_explained(rest, Some(new)),
                (Fate::Killed, Work::Delete) => self.is_explained(rest, None),
                _ => self.is_explained(rest, file),
            }
        })
    }
}

/// Visits every state that can follow from `start` if at most `kills` actors are killed. Returns
/// the number of states, or describes the first state that breaks a requirement.
fn explore(start: &SearchState, kills: u32) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![(start.clone(), kills)];
    while let Some((state, kills)) = open.pop() {
        if !seen.insert((state.clone(), kills)) {
            continue;
        }
        let running: Vec<usize> = (0..state.actors.len()).filter(|index| state.may_run(*index)).collect();
        if state.has_two_files() {
            return Err(format!("two files of one name: {state:?}"));
        }
        if running.is_empty() {
            let all = u8::MAX >> (8 - state.actors.len());
            if !state.is_explained(all, state.first) {
                return Err(format!("cannot have happened: {state:?}"));
            }
        }
        let steps: Vec<SearchState> = running.iter().filter_map(|index| state.stepped(*index)).collect();
        if steps.is_empty() && !running.is_empty() {
            return Err(format!("no actor can take a step: {state:?}"));
        }
        open.extend(steps.into_iter().map(|next| (next, kills)));
        if kills > 0 {
            open.extend(running.iter().map(|index| (state.killed(*index), kills - 1)));
        }
    }
    Ok(seen.len())
}

const TO_SHARDED: Work = Work::Convert(FilePlace::Sharded);
const TO_FLAT: Work = Work::Convert(FilePlace::Flat);

/// Checks the requirements for `actors` that run at the same time as conversions: with one reversal
/// and up to two kills, and with two reversals and up to one kill. Reversals and kills may happen
/// at any step.
#[track_caller]
fn check_requirements(actors: &[Work]) {
    for moves in [Moves::Rename, Moves::LinkAndUnlink] {
        for (place, turns) in [
            (FilePlace::Flat, [TO_SHARDED, TO_FLAT, TO_SHARDED]),
            (FilePlace::Sharded, [TO_FLAT, TO_SHARDED, TO_FLAT]),
        ] {
            for (first, conversions, kills) in [(None, 2, 2), (Some(9), 2, 2), (None, 3, 1), (Some(9), 3, 1)]
            {
                let works = [&turns[..conversions], actors].concat();
                let states = explore(&SearchState::new(moves, place, first, &works), kills);
                assert!(states.unwrap_or_else(|found| panic!("{found}")) > 100);
            }
        }
    }
}

#[test]
fn readers_find_a_file_while_it_moves_to_and_fro() {
    check_requirements(&[Work::Look, Work::Look]);
}

#[test]
fn a_writer_and_a_reader_see_one_file() {
    check_requirements(&[Work::Put(1), Work::Look]);
}

#[test]
fn a_deleter_and_a_reader_see_one_file() {
    check_requirements(&[Work::Delete, Work::Look]);
}

#[test]
fn two_writers_leave_one_file() {
    check_requirements(&[Work::Put(1), Work::Put(2)]);
}

#[test]
fn a_writer_and_a_deleter_leave_one_file_or_none() {
    check_requirements(&[Work::Put(1), Work::Delete]);
}

#[test]
fn the_search_notices_a_reader_who_does_not_look_again() {
    let start = SearchState::new(Moves::Rename, FilePlace::Sharded, Some(9), &[TO_FLAT, Work::HastyLook]);
    assert!(explore(&start, 0).unwrap_err().contains("cannot have happened"));
}

#[test]
fn the_search_notices_a_writer_outside_the_gate() {
    let works = [TO_SHARDED, TO_FLAT, Work::RashPut(1), Work::Put(2)];
    let start = SearchState::new(Moves::Rename, FilePlace::Flat, Some(9), &works);
    assert!(explore(&start, 0).unwrap_err().contains("two files of one name"));
}
