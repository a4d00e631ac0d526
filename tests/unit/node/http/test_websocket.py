"""What all connections together may hold."""

from node.http.websocket import MemoryBudget


def test_everybody_may_go_on_while_there_is_enough() -> None:
    budget = MemoryBudget(100)

    assert budget.note("a", 60)
    assert budget.note("b", 40)
    assert budget.held_bytes == 100


def test_beyond_the_budget_only_those_with_more_than_their_share_must_go() -> None:
    budget = MemoryBudget(100)
    budget.note("greedy", 90)

    assert budget.note("modest", 20)
    assert not budget.note("greedy", 91)
    budget.release("greedy")
    assert budget.held_bytes == 20
    assert budget.note("modest", 100)


def test_what_is_released_twice_counts_once() -> None:
    budget = MemoryBudget(100)
    budget.note("a", 10)
    budget.release("a")
    budget.release("a")

    assert budget.held_bytes == 0
