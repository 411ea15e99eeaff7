"""Users' pictures in the modes of Pillow, compared with conversions in float64 that follow the definitions."""

import colorsys
import functools
import io
import random

import image_files
import mutate
import numpy as np
import profiles
import pytest
from PIL import Image

from fashion_infer.data import pictures
from fashion_infer.errors import DataError

LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
H, W = 9, 13


@pytest.fixture
def rng():
    return np.random.default_rng()


def pixels(rng, bands, dtype=np.uint8):
    """Return random pixels (H, W, bands), or (H, W) for one band, with the smallest and the largest value."""
    values = rng.integers(0, np.iinfo(dtype).max + 1, (H, W, bands)[: 2 + (bands > 1)], dtype=dtype)
    values[0, 0], values[0, 1] = 0, np.iinfo(dtype).max
    return values


def luma(rgb):
    return np.asarray(rgb, np.float64) @ LUMA


def over(level, alpha):
    """Return grey levels over the background that the documentation defines; alpha is from 0 to 1.

    None if a choice of the background is too close to be tested.
    """
    edge = np.zeros((H, W), bool)
    edge[[0, -1]] = edge[:, [0, -1]] = True
    around = np.concatenate([alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1]])
    subject = (level * alpha).sum() / alpha.sum()
    if abs(np.median(around) - 0.5) < 0.01 or abs(subject - 127) < 2:
        return None
    if np.median(around) > 0.5:
        levels = np.concatenate([level[0], level[-1], level[:, 0], level[:, -1]])
        ground = np.median(levels[around > 0.5])
    else:
        ground = 0.0 if subject > 127 else 255.0
    return alpha * level + (1 - alpha) * ground


def premultiplied(mode, values):
    return Image.frombytes(mode, (W, H), np.ascontiguousarray(values).tobytes())


def case_La(rng):
    level, alpha = pixels(rng, 1).astype(float), rng.integers(100, 256, (H, W)).astype(np.uint8)
    stored = np.rint(level * alpha / 255).astype(np.uint8)
    exact = np.minimum(255, stored * 255.0 / alpha)
    return premultiplied("La", np.stack([stored, alpha], -1)), over(exact, alpha / 255)


def case_RGBa(rng):
    rgb, alpha = pixels(rng, 3).astype(float), rng.integers(100, 256, (H, W)).astype(np.uint8)
    stored = np.rint(rgb * alpha[..., None] / 255).astype(np.uint8)
    exact = np.minimum(255, stored * 255.0 / alpha[..., None])
    return premultiplied("RGBa", np.concatenate([stored, alpha[..., None]], -1)), over(luma(exact), alpha / 255)


def _palette(rng):
    colours = rng.integers(0, 256, (256, 3)).astype(np.uint8)
    index = rng.integers(0, 256, (H, W)).astype(np.uint8)
    picture = Image.fromarray(index, "P")
    picture.putpalette(colours.tobytes())
    return picture, index, luma(colours[index])


def case_P(rng):
    picture, _, level = _palette(rng)
    return picture, level


def case_P_with_one_transparent_colour(rng):
    picture, index, level = _palette(rng)
    picture.info["transparency"] = int(index[4, 4])
    return picture, over(level, (index != index[4, 4]).astype(float))


def case_P_with_an_opacity_for_each_colour(rng):
    picture, index, level = _palette(rng)
    opacity = rng.integers(0, 256, 256).astype(np.uint8)
    picture.info["transparency"] = opacity.tobytes()
    return picture, over(level, opacity[index] / 255)


def case_PA(rng):
    picture, index, level = _palette(rng)
    alpha = rng.integers(0, 256, (H, W)).astype(np.uint8)
    with_alpha = Image.merge("PA", (Image.fromarray(index), Image.fromarray(alpha)))
    with_alpha.putpalette(picture.getpalette())
    return with_alpha, over(level, alpha / 255)


def case_L_with_a_transparent_level(rng):
    level = pixels(rng, 1)
    picture = Image.fromarray(level)
    picture.info["transparency"] = int(level[3, 3])
    return picture, over(level.astype(float), (level != level[3, 3]).astype(float))


def case_RGB_with_a_transparent_colour(rng):
    rgb = pixels(rng, 3)
    picture = Image.fromarray(rgb)
    picture.info["transparency"] = tuple(int(value) for value in rgb[3, 3])
    return picture, over(luma(rgb), (rgb != rgb[3, 3]).any(-1).astype(float))


def luma_of_ycbcr(values):
    y, cb, cr = (values[..., index].astype(float) for index in range(3))
    rgb = [y + 1.402 * (cr - 128), y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128), y + 1.772 * (cb - 128)]
    return luma(np.clip(np.stack(rgb, -1), 0, 255))


def luma_of_hsv(values):
    rgb = [colorsys.hsv_to_rgb(*(pixel / 255.0)) for pixel in values.reshape(-1, 3)]
    return luma(255 * np.array(rgb)).reshape(H, W)


def luma_of_cmyk(values):
    return luma((255.0 - values[..., :3]) * (1 - values[..., 3:] / 255.0))


def direct(bands, dtype, picture, levels, rng):
    values = pixels(rng, bands, dtype)
    return picture(values), levels(values)


def of_16_bits(values):
    return values * (255 / 65535)


# Pictures whose pixels are any values: bands, type, the picture that has the values, and their exact grey levels.
DIRECT = {
    "1": (1, np.uint8, lambda v: Image.fromarray(v > 127), lambda v: 255.0 * (v > 127)),
    "L": (1, np.uint8, Image.fromarray, lambda v: v),
    "RGB": (3, np.uint8, Image.fromarray, luma),
    "RGBX": (4, np.uint8, lambda v: premultiplied("RGBX", v), lambda v: luma(v[..., :3])),
    "LA": (2, np.uint8, lambda v: Image.fromarray(v, "LA"), lambda v: over(v[..., 0].astype(float), v[..., 1] / 255)),
    "RGBA": (4, np.uint8, lambda v: Image.fromarray(v, "RGBA"), lambda v: over(luma(v[..., :3]), v[..., 3] / 255)),
    "CMYK": (4, np.uint8, lambda v: Image.fromarray(v, "CMYK"), luma_of_cmyk),
    "YCbCr": (3, np.uint8, lambda v: Image.fromarray(v, "YCbCr"), luma_of_ycbcr),
    "HSV": (3, np.uint8, lambda v: Image.fromarray(v, "HSV"), luma_of_hsv),
    "I;16": (1, np.uint16, Image.fromarray, of_16_bits),
    "I;16B": (1, np.uint16, lambda v: Image.frombytes("I;16B", (W, H), v.astype(">u2").tobytes()), of_16_bits),
    "I of 16 bits": (1, np.uint16, lambda v: Image.fromarray(v.astype(np.int32)), of_16_bits),
    "I of 8 bits": (1, np.uint8, lambda v: Image.fromarray(v.astype(np.int32)), lambda v: v),
    "F to 1": (1, np.uint16, lambda v: Image.fromarray((v / 65535).astype(np.float32)), of_16_bits),
    "F to 255": (1, np.uint16, lambda v: Image.fromarray((v / 257).astype(np.float32)), lambda v: v / 257),
}
CASES = {name[len("case_") :]: case for name, case in list(globals().items()) if name.startswith("case_")}
CASES.update({name: functools.partial(direct, *row) for name, row in DIRECT.items()})
# Largest allowed differences in grey levels (0 to 255) for modes that Pillow converts with several roundings; 1 for
# other modes.
LOOSE = {"HSV": 2.5, "YCbCr": 2.0, "CMYK": 1.6, "La": 2.0, "RGBa": 2.0}


@pytest.mark.parametrize("name", CASES)
def test_every_mode(name, rng, monkeypatch):
    monkeypatch.setattr(pictures, "_FLOATS", 3 * W)
    for _ in range(profiles.examples(4)):
        picture, expected = CASES[name](rng)
        if expected is None:
            continue
        found = pictures.levels(picture)
        assert found.dtype == np.uint8 and found.shape == (H, W)
        assert np.abs(found - np.asarray(expected, float)).max() <= LOOSE.get(name, 1.0)


@pytest.mark.parametrize("values", [[0.0, 300.0], [-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [-1, 5], [0, 65536]])
def test_values_of_unknown_scale_are_refused(values, tmp_path):
    kind = np.float32 if isinstance(values[0], float) else np.int32
    Image.fromarray(np.array([values], kind)).save(tmp_path / "a.tiff")
    with pytest.raises(DataError):
        pictures.read(str(tmp_path / "a.tiff"))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("suffix", ["png", "pgm", "tiff"])
def test_16_bits_are_the_same_picture_as_8(suffix, dark, tmp_path, rng):
    """No value of a dark picture is above 255."""
    wide = rng.integers(0, 256 if dark else 65536, (40, 40)).astype(np.uint16)
    level = np.rint(wide / 257).astype(np.uint8)
    paths = [tmp_path / f"{bits}.{suffix}" for bits in (8, 16)]
    if suffix == "png":
        for path, values in zip(paths, (level, wide)):
            path.write_bytes(image_files.grey_png(values))
    elif suffix == "pgm":
        paths[0].write_bytes(b"P5 40 40 255\n" + level.tobytes())
        paths[1].write_bytes(b"P5 40 40 65535\n" + wide.astype(">u2").tobytes())
    else:
        for path, values in zip(paths, (level, wide)):
            Image.fromarray(values).save(path)
    first, second = (pictures.read(str(path), invert=False) for path in paths)
    assert np.array_equal(first, second)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "jpg", "tiff", "webp"])
def test_exif_orientation_is_applied(orientation, suffix, tmp_path):
    """The standard's table says where the stored row 0 and column 0 are in the shown picture."""
    shown = np.zeros((60, 40), np.uint8)
    shown[5:20, 5:15] = 255
    shown[40:55, 5:35] = 128
    stored = {
        1: shown,
        2: shown[:, ::-1],
        3: shown[::-1, ::-1],
        4: shown[::-1],
        5: shown.T,
        6: shown.T[::-1],
        7: shown.T[::-1, ::-1],
        8: shown.T[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).convert("RGB").save(tmp_path / f"a.{suffix}", exif=exif, quality=100)
    Image.fromarray(shown).save(tmp_path / "b.png")
    first, second = (pictures.read(str(tmp_path / name), invert=False) for name in (f"a.{suffix}", "b.png"))
    assert np.abs(first.astype(int) - second).max() <= (0 if suffix in ("png", "tiff") else 12)


@pytest.mark.parametrize("level", [0, 40, 90, 160, 255])
@pytest.mark.parametrize("behind", [0, 255])
def test_whatever_is_opaque_stays_visible_on_transparent_ground(level, behind, tmp_path):
    picture = np.zeros((56, 56, 2), np.uint8)
    picture[..., 0] = behind  # grey level of the invisible pixels
    picture[16:40, 16:40] = level, 255
    Image.fromarray(picture, "LA").save(tmp_path / "a.png")
    seen = pictures.read(str(tmp_path / "a.png"))[0]
    assert seen[0, 0] == 0 and seen[14, 14] == max(level, 255 - level)


def test_transparent_corners_get_the_grey_of_the_border(tmp_path):
    picture = np.full((56, 56, 2), 255, np.uint8)
    picture[20:36, 20:36, 0] = 0
    picture[:6, :6, 1] = picture[-6:, -6:, 1] = 0
    Image.fromarray(picture, "LA").save(tmp_path / "a.png")
    seen = pictures.read(str(tmp_path / "a.png"))[0]
    assert seen[0, 0] == seen[-1, -1] == seen[0, 14] == 0 and seen[14, 14] == 255


def square(levels, border):
    """Return the picture centred in a square of the border's grey, and resized to 28x28 in one step."""
    side = max(levels.shape)
    whole = np.full((side, side), border, np.uint8)
    top, left = ((side - extent) // 2 for extent in levels.shape)
    whole[top : top + levels.shape[0], left : left + levels.shape[1]] = levels
    method = Image.BOX if side > 28 else Image.BILINEAR
    return np.asarray(Image.fromarray(whole).resize((28, 28), method))


def test_fitting_equals_resizing_the_square(rng, monkeypatch):
    monkeypatch.setattr(pictures, "_STRIP", 700)
    for _ in range(profiles.examples(60)):
        height, width = (int(extent) for extent in rng.integers(1, 400, 2) // rng.choice([1, 1, 20, 100], 2) + 1)
        levels = rng.integers(0, 256, (height, width)).astype(np.uint8)
        border = int(rng.integers(0, 256))
        assert np.array_equal(pictures._fitted(levels, border), square(levels, border)), (height, width)


def test_a_picture_that_is_too_large_is_not_decoded(tmp_path, monkeypatch):
    Image.new("1", (60_000, 1)).save(tmp_path / "a.png")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    with pytest.raises(DataError):
        pictures.read(str(tmp_path / "a.png"))


def encoded(rng):
    """Return a small picture in each supported format that this Pillow can write, as bytes by format."""
    Image.init()
    picture = Image.fromarray(rng.integers(0, 256, (24, 24, 3)).astype(np.uint8))
    found = {}
    for name in pictures.FORMATS:
        for mode in ("RGB", "L", "1"):
            stream = io.BytesIO()
            try:
                picture.convert(mode).save(stream, name)
            except (KeyError, OSError, ValueError):
                continue
            found[name] = stream.getvalue()
            break
    return found


def test_damaged_pictures_of_every_format_are_one_line(tmp_path, rng, recwarn):
    chance = random.Random()
    for name, content in encoded(rng).items():
        for _ in range(profiles.examples(12)):
            (tmp_path / name).write_bytes(mutate.damaged(chance, content))
            try:
                seen = pictures.read(str(tmp_path / name))
            except DataError as error:
                assert "\n" not in str(error)
            else:
                assert seen.shape == (1, 28, 28)
    assert not [str(warning) for warning in recwarn.list]


def test_damaged_exif_is_ignored(tmp_path, rng):
    level = rng.integers(0, 256, (40, 40)).astype(np.uint8)
    Image.fromarray(level).save(tmp_path / "a.png", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(20))
    Image.fromarray(level).save(tmp_path / "b.png")
    assert np.array_equal(*(pictures.read(str(tmp_path / name)) for name in ("a.png", "b.png")))


def test_the_first_frame_of_an_animation_is_read(tmp_path):
    frames = [Image.fromarray(np.full((30, 30), level, np.uint8)) for level in (200, 10)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (pictures.read(str(tmp_path / "a.gif"), invert=False) == 200).all()


def test_lab_colours_are_refused():
    with pytest.raises(pictures.UnknownScale, match="RGB"):
        pictures.levels(Image.new("LAB", (2, 2)))
