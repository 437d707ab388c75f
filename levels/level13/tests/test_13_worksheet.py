"""The worksheet of level 13: right values by walking tiles, cycles, lanes, bytes and banks one by one."""

import pytest

SMS, BANDWIDTH, PEAK = 142, 864e9, 362e12  # of an L40S


@pytest.mark.kata("level13.worksheet.array_cycles")
def test_every_tile_of_the_weights_moves_in_and_is_crossed(answer):
    """What a few tokens cost on a systolic array. Oracle: tiles one by one, and the last sum of each on its way."""
    cycles = 0
    for _ in range(0, 2048, 256):
        for _ in range(0, 5700, 256):
            cycles += 256  # a row of the weights in each
            row, col = 0, 0
            for _ in range(24):  # tokens enter
                cycles += 1
            while row < 255 or col < 255:  # the last one goes right, and then its sum down
                row, col = (row, col + 1) if col < 255 else (row + 1, col)
                cycles += 1
    answer("array_cycles").equals(cycles, rel=0.01)


@pytest.mark.kata("level13.worksheet.warps_needed")
def test_warps_fill_the_cycles_of_each_others_loads(answer):
    """How many a scheduler needs is what occupancy is for. Oracle: warps are added until a turn has no empty cycle."""
    turn = 455 + 9  # from load to load of one warp
    warps = busy = 0
    while busy < turn:
        warps, busy = warps + 1, busy + 1 + 9
    answer("warps_needed").equals(warps, rel=0.01)


@pytest.mark.kata("level13.worksheet.loads_in_flight")
def test_what_arrives_while_one_waits_is_under_way(answer):
    """With less the memory idles, whatever the program does. Oracle: loads are added until they are enough."""
    loads = 0
    while SMS * sum(4 for _ in range(32)) * loads < BANDWIDTH * 720e-9:
        loads += 1
    answer("loads_in_flight").equals(loads, rel=0.01)


@pytest.mark.kata("level13.worksheet.occupancy_percent")
def test_blocks_are_put_on_an_sm_until_one_does_not_fit(answer):
    """Registers of a partition stay there, and warps are whole. Oracle: blocks are placed warp by warp."""
    registers = [65536 // 4] * 4
    shared, warps = 228 * 1024, 0
    while True:
        need = next(bytes for bytes in range(0, shared + 128, 128) if bytes >= 30_000 + 1024)
        left, block = list(registers), 0
        for _ in range(0, 180, 32):
            at = max(range(4), key=left.__getitem__)
            if left[at] >= 13 * 256 and warps + block < 64:  # 3,200 registers are 12.5 units
                left[at] -= 13 * 256
                block += 1
        if block < 6 or shared < need:
            break
        registers, shared, warps = left, shared - need, warps + 6
    answer("occupancy_percent").equals(100 * warps / 64, rel=0.01)


@pytest.mark.kata("level13.worksheet.load_share")
def test_whole_sectors_move(answer):
    """The rest of a sector takes its bandwidth for nothing. Oracle: a set of bytes, and a set of their sectors."""
    wanted = {8 + 72 * lane + i for lane in range(32) for i in range(12)}
    moved = {32 * (byte // 32) + i for byte in wanted for i in range(32)}
    answer("load_share").equals(100 * len(wanted) / len(moved), rel=0.01)


@pytest.mark.kata("level13.worksheet.bank_cycles")
def test_a_bank_gives_one_word_a_cycle(answer):
    """Why the distance of rows is chosen with care. Oracle: cycle by cycle, a word from each bank."""
    waiting = {48 * (lane // 2) + 5 for lane in range(32)}
    cycles = 0
    while waiting:
        waiting -= set({word % 32: word for word in waiting}.values())
        cycles += 1
    answer("bank_cycles").equals(cycles, rel=0.01)


@pytest.mark.kata("level13.worksheet.traffic_mb")
def test_each_tile_of_the_result_reads_its_rows_and_columns(answer):
    """What a kernel moves is decided by its tiles. Oracle: all tiles, with what each loads."""
    moved = 0
    for top in range(0, 1000, 160):
        for left in range(0, 3000, 256):
            rows, cols = min(160, 1000 - top), min(256, 3000 - left)
            moved += 2 * (rows * 1024 + 1024 * cols + rows * cols)
    answer("traffic_mb").equals(moved / 1e6, rel=0.01)


@pytest.mark.kata("level13.worksheet.gemm_us")
def test_two_tiles_too_many_are_a_wave(answer):
    """Work that is planned from FLOPs alone takes twice as long. Oracle: tiles are handed out to SMs, wave by wave."""
    tiles = [(top, left) for top in range(0, 300, 128) for left in range(0, 6144, 128)]
    seconds = 0
    while tiles:
        tiles = tiles[SMS:]
        seconds += 2 * 128 * 128 * 4096 / (PEAK / SMS)
    reading = 2 * (300 * 4096 + 4096 * 6144 + 300 * 6144) / BANDWIDTH
    answer("gemm_us").equals(1e6 * max(seconds, reading), rel=0.01)
