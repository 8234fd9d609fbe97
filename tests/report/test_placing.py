"""Labels of a chart lie on nothing and keep their order."""

from itertools import combinations, pairwise

from attnsuite.report.render.placing import LINE, beside, nearest, spread


def test_labels_of_lines_keep_their_distance_and_their_order():
    wanted = [10.0, 10.5, 11.0, 200.0, 11.2, 299.0, 298.0]

    found = spread(wanted, LINE, LINE / 2, 300 - LINE / 2)

    ordered = sorted(found)
    assert all(high - low >= LINE - 1e-9 for low, high in pairwise(ordered))
    assert sorted(range(7), key=found.__getitem__) == sorted(range(7), key=wanted.__getitem__)
    assert ordered[0] >= LINE / 2
    assert ordered[-1] <= 300 - LINE / 2 + 1e-9
    assert found[3] == 200.0  # whoever has room stays


def test_labels_of_points_lie_on_nothing():
    points = [(100.0, 100.0), (104.0, 103.0), (108.0, 98.0), (100.0, 112.0), (370.0, 10.0), (372.0, 30.0), (8.0, 300.0)]
    names = ["torch_sdpa.automatic", "torch_sdpa.flash", "matmul", "chunked", "jax_nn", "onnx_operator", "loops"]

    boxes = beside(points, names, (380, 320))

    for (left, top, right, bottom), (x, y, end, floor) in combinations(boxes, 2):
        assert right <= x or end <= left or bottom <= y or floor <= top
    for box in boxes:
        assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)
        assert box[0] >= 0
        assert 0 <= box[1] < box[3] <= 320
    for (x, y), box in zip(points, boxes, strict=True):
        to_x, to_y = nearest((x, y), box)
        assert abs(to_x - x) + abs(to_y - y) < 120


def test_labels_keep_off_the_line_that_joins_the_front():
    line = [(20.0, 50.0), (200.0, 50.0)]

    (box,) = beside([(100.0, 50.0)], ["chunked"], (380, 320), [line])

    assert not box[1] < 50 < box[3]
