/* Neighbouring loops (a, b) become one loop of count a x b wherever each position moves by count(b) steps of b for one of a. */
#include "codegen/nest.h"

static bool affine_allows(const lj_group *group, const lj_affine *at, int a, int b)
{
    lj_dim of_a, of_b;
    if (!at) return true;
    if (!lj_affine_coefficient(at, a, &of_a) || !lj_affine_coefficient(at, b, &of_b)) return false;
    return lj_dim_equal(of_a, lj_dim_mul(of_b, group->atoms[b].dim));
}

static bool group_allows(const lj_group *group, int a, int b)
{
    for (int i = 0; i < group->stmt_count; i++)
        if (!affine_allows(group, group->stmts[i].at, a, b)) return false;
    for (int i = 0; i < group->store_count; i++)
        if (!affine_allows(group, group->stores[i].at, a, b)) return false;
    for (int i = 0; i < group->atom_count; i++)
        if (!affine_allows(group, group->atoms[i].from, a, b)) return false;
    return true;
}

/* Folds loop a into b. */
static void merge(lj_group *group, int a, int b)
{
    group->atoms[b].dim = lj_dim_mul(group->atoms[a].dim, group->atoms[b].dim);
    group->atoms[a].gone = true;
    for (int i = 0; i < group->stmt_count; i++)
        if (group->stmts[i].at) lj_affine_drop(group->stmts[i].at, a);
    for (int i = 0; i < group->store_count; i++)
        if (group->stores[i].at) lj_affine_drop(group->stores[i].at, a);
    for (int i = 0; i < group->atom_count; i++)
        if (group->atoms[i].from) lj_affine_drop(group->atoms[i].from, a);
}

static void remove_outer(lj_group *group, int at)
{
    group->outer_count--;
    for (int i = at; i < group->outer_count; i++) group->outer[i] = group->outer[i + 1];
}

/* The inner loop can swallow the loop round it only when nothing happens once a row. */
static bool inner_is_alone(const lj_group *group)
{
    if (group->inner_count != 1 || group->phase_count > 1 || group->reduced_count > 0) return false;
    for (int i = 0; i < group->store_count; i++)
        if (group->stores[i].inner < 0) return false;
    for (int i = 0; i < group->stmt_count; i++)
        if (group->stmts[i].kind == LJ_STMT_REDUCE || (group->stmts[i].row && group->stmts[i].inner < 0)) return false;
    return true;
}

/* Column groups: outer loops are kept dims as the inner one is; the loops over rows lie between them. */
static bool inner_may_merge(const lj_group *group)
{
    return group->outer_count > 0 && (inner_is_alone(group) || (group->reduced_count > 0 && group->inner_count == 1));
}

void lj_group_merge_loops(lj_group *group)
{
    while (inner_may_merge(group)) {
        int last = group->outer[group->outer_count - 1], inner = group->inner[0];
        if (!group_allows(group, last, inner)) break;
        merge(group, last, inner);
        remove_outer(group, group->outer_count - 1);
    }
    for (int k = group->outer_count - 2; k >= 0; k--) {
        if (!group_allows(group, group->outer[k], group->outer[k + 1])) continue;
        merge(group, group->outer[k], group->outer[k + 1]);
        remove_outer(group, k);
    }
}
