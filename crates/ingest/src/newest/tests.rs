use super::*;

fn heights(first: u32, last: u32) -> HeightRange {
    HeightRange::new(Height::new(first), Height::new(last)).unwrap()
}

/// With ranges of 10 blocks, of which the newest 100 blocks come first.
fn next(next: u32, last: u32, islands: &[HeightRange]) -> Option<Part> {
    next_with(100, false, next, last, islands)
}

fn next_with(
    newest_blocks: u32,
    rests: bool,
    next: u32,
    last: u32,
    islands: &[HeightRange],
) -> Option<Part> {
    let range_blocks = NonZeroU32::new(10).unwrap();
    let wish = Wish {
        newest_blocks,
        rests,
    };
    next_part(
        Height::new(next),
        Height::new(last),
        range_blocks,
        wish,
        islands,
    )
}

#[test]
fn while_the_newest_rest_the_gap_is_filled_in_parts() {
    let part = |end, islands: &[HeightRange]| next_with(100, true, end, 9_999, islands);
    assert_eq!(part(0, &[]), Some(Part::InTurn(heights(0, 639))));
    assert_eq!(part(640, &[]), Some(Part::InTurn(heights(640, 1_279))));
    let island = [heights(900, 989)];
    assert_eq!(part(640, &island), Some(Part::InTurn(heights(640, 899))));
}

#[test]
fn the_newest_whole_ranges_come_first_and_the_highest_of_them_before_the_others() {
    assert_eq!(next(0, 996, &[]), Some(Part::Ahead(heights(910, 989))));
    let newest = [heights(910, 989)];
    assert_eq!(next(0, 996, &newest), Some(Part::Ahead(heights(890, 909))));
    let all = [heights(890, 989)];
    assert_eq!(next(0, 996, &all), Some(Part::InTurn(heights(0, 639))));
}

#[test]
fn a_range_that_has_become_final_comes_before_the_rest_of_the_gap() {
    let island = [heights(890, 989)];
    assert_eq!(
        next(640, 999, &island),
        Some(Part::Ahead(heights(990, 999)))
    );
    let island = [heights(890, 999)];
    assert_eq!(
        next(640, 999, &island),
        Some(Part::InTurn(heights(640, 889)))
    );
}

#[test]
fn a_hole_between_islands_is_built_when_it_is_among_the_newest() {
    let islands = [heights(100, 199), heights(900, 939), heights(960, 999)];
    assert_eq!(next(0, 999, &islands), Some(Part::Ahead(heights(940, 959))));
    let islands = [heights(100, 199), heights(900, 999)];
    assert_eq!(next(0, 999, &islands), Some(Part::InTurn(heights(0, 99))));
}

#[test]
fn near_the_newest_everything_comes_in_its_turn() {
    assert_eq!(next(0, 178, &[]), Some(Part::InTurn(heights(0, 178))));
    assert_eq!(next(0, 179, &[]), Some(Part::Ahead(heights(100, 179))));
    assert_eq!(next(1, 179, &[]), Some(Part::InTurn(heights(1, 179))));
    // The gap is filled to the island even so.
    let island = [heights(900, 989)];
    assert_eq!(
        next(850, 999, &island),
        Some(Part::InTurn(heights(850, 899)))
    );
    assert_eq!(next(181, 180, &[]), None);
}

#[test]
fn without_newest_blocks_the_gap_is_filled_in_one_go() {
    let part = |islands: &[HeightRange]| next_with(0, false, 5, 5_000, islands);
    assert_eq!(part(&[]), Some(Part::InTurn(heights(5, 5_000))));
    let island = [heights(900, 989)];
    assert_eq!(part(&island), Some(Part::InTurn(heights(5, 899))));
}
