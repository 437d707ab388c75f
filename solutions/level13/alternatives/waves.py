"""Right programs, written another way, for level13.waves. `alternative` is given when this is read."""


def _ceilings(m, n, tile_m, tile_n, num_sms=132, blocks_per_sm=1):
    from math import ceil

    if min(m, n, tile_m, tile_n, num_sms, blocks_per_sm) < 1:
        raise ValueError("below 1")
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    waves, rest = divmod(tiles, num_sms * blocks_per_sm)
    waves += rest > 0
    return tiles, waves, tiles / num_sms / blocks_per_sm / waves


def _remainders(m, n, tile_m, tile_n):
    if min(m, n, tile_m, tile_n) < 1:
        raise ValueError("below 1")
    return m / (m + -m % tile_m) * (n / (n + -n % tile_n))


def _through_efficiencies(m, n, k, hardware=None, tile_m=128, tile_n=128, num_sms=132, bytes_per_element=2):
    from level04.roofline import H100
    from level13.waves import tile_quantization, wave_quantization

    hardware = hardware or H100
    if min(m, n, k, tile_m, tile_n, num_sms) < 1:
        raise ValueError("below 1")
    share = tile_quantization(m, n, tile_m, tile_n) * wave_quantization(m, n, tile_m, tile_n, num_sms)[2]
    arithmetic = 2 * m * n * k / share / hardware.peak_flops
    return max(arithmetic, bytes_per_element * (m * k + n * (m + k)) / hardware.bandwidth)


def _share_of_the_peak(m, n, k, hardware=None, tile_m=128, tile_n=128, num_sms=132, bytes_per_element=2):
    from level04.roofline import H100

    hardware = hardware or H100
    if min(m, n, k, tile_m, tile_n, num_sms) < 1:
        raise ValueError("below 1")
    tiles = len(range(0, m, tile_m)) * len(range(0, n, tile_n))
    busiest = len(range(0, tiles, num_sms))  # tiles on the SM that has most of them
    arithmetic = busiest * (2 * tile_m * tile_n * k) / (hardware.peak_flops / num_sms)
    return max(arithmetic, bytes_per_element * sum((m * k, k * n, m * n)) / hardware.bandwidth)


alternative("level13.waves.wave_quantization", "ceilings", program=_ceilings)
alternative("level13.waves.wave_quantization", "remainders", program=_remainders, part="tile_quantization")
alternative("level13.waves.gemm_seconds", "through_efficiencies", program=_through_efficiencies)
alternative("level13.waves.gemm_seconds", "share_of_the_peak", program=_share_of_the_peak)
