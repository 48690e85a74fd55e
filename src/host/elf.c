#include "host/elf.h"

#include "base/file.h"
#include "host/host.h"

#include <elf.h>
#include <string.h>

enum { MAX_DYNAMIC = 4096, MAX_VERSIONS = 4096 };

typedef struct {
    const uint8_t *data;
    size_t bytes;
    const char *name;
    const Elf64_Phdr *headers;
    size_t header_count;
    uint64_t strings, strings_bytes; /* file offset of .dynstr */
} image;

/* `count` things of `size` bytes at a file offset, NULL when they do not lie inside the file. */
static const void *at(const image *im, uint64_t offset, uint64_t size)
{
    return offset <= im->bytes && size <= im->bytes - offset ? im->data + offset : NULL;
}

/* File offset of an address through the loaded segments. */
static bool offset_of(const image *im, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < im->header_count; i++) {
        Elf64_Phdr h;
        memcpy(&h, im->headers + i, sizeof h);
        if (h.p_type != PT_LOAD || address < h.p_vaddr || address - h.p_vaddr >= h.p_filesz) continue;
        *offset = h.p_offset + (address - h.p_vaddr);
        return true;
    }
    return false;
}

static const char *string_at(const image *im, uint64_t index)
{
    if (index >= im->strings_bytes) return "";
    const char *text = at(im, im->strings + index, 1);
    size_t room = im->bytes - (size_t)(im->strings + index);
    return text && memchr(text, 0, room) ? text : "";
}

static lj_status header_read(image *im, lj_elf *elf)
{
    Elf64_Ehdr h;
    const void *start = at(im, 0, sizeof h);
    if (!start) return lj_fail(LJ_ERR_FORMAT, "%s: %zu bytes are no ELF file", im->name, im->bytes);
    memcpy(&h, start, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB)
        return lj_fail(LJ_ERR_FORMAT, "%s: not a 64-bit little-endian ELF file", im->name);
    im->headers = at(im, h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr));
    if (!im->headers || h.e_phentsize != sizeof(Elf64_Phdr))
        return lj_fail(LJ_ERR_FORMAT, "%s: program headers outside the file", im->name);
    im->header_count = h.e_phnum;
    elf->machine = h.e_machine;
    return LJ_OK;
}

typedef struct {
    uint64_t needed[MAX_DYNAMIC];
    size_t needed_count;
    uint64_t soname, runpath, rpath, verneed, verneed_count, verdef, verdef_count;
} dynamic;

static void dynamic_entry(image *im, dynamic *d, const Elf64_Dyn *e)
{
    switch (e->d_tag) {
    case DT_NEEDED:
        if (d->needed_count < MAX_DYNAMIC) d->needed[d->needed_count++] = e->d_un.d_val;
        break;
    case DT_SONAME: d->soname = e->d_un.d_val; break;
    case DT_RUNPATH: d->runpath = e->d_un.d_val; break;
    case DT_RPATH: d->rpath = e->d_un.d_val; break;
    case DT_STRTAB: (void)offset_of(im, e->d_un.d_ptr, &im->strings); break;
    case DT_STRSZ: im->strings_bytes = e->d_un.d_val; break;
    case DT_VERNEED: (void)offset_of(im, e->d_un.d_ptr, &d->verneed); break;
    case DT_VERNEEDNUM: d->verneed_count = e->d_un.d_val; break;
    case DT_VERDEF: (void)offset_of(im, e->d_un.d_ptr, &d->verdef); break;
    case DT_VERDEFNUM: d->verdef_count = e->d_un.d_val; break;
    default: break;
    }
}

static void dynamic_read(image *im, dynamic *d)
{
    for (size_t i = 0; i < im->header_count; i++) {
        Elf64_Phdr h;
        memcpy(&h, im->headers + i, sizeof h);
        if (h.p_type != PT_DYNAMIC) continue;
        for (uint64_t k = 0; k < h.p_filesz / sizeof(Elf64_Dyn) && k < MAX_DYNAMIC; k++) {
            Elf64_Dyn e;
            const void *entry = at(im, h.p_offset + k * sizeof e, sizeof e);
            if (!entry) return;
            memcpy(&e, entry, sizeof e);
            if (e.d_tag == DT_NULL) return;
            dynamic_entry(im, d, &e);
        }
    }
}

static void versions_needed(const image *im, const dynamic *d, json_t *out)
{
    uint64_t place = d->verneed;
    for (uint64_t i = 0; place && i < d->verneed_count && i < MAX_VERSIONS; i++) {
        Elf64_Verneed need;
        const void *start = at(im, place, sizeof need);
        if (!start) return;
        memcpy(&need, start, sizeof need);
        uint64_t aux = place + need.vn_aux;
        for (unsigned k = 0; k < need.vn_cnt; k++) {
            Elf64_Vernaux one;
            const void *entry = at(im, aux, sizeof one);
            if (!entry) return;
            memcpy(&one, entry, sizeof one);
            lj_json_append_text(out, string_at(im, one.vna_name));
            if (!one.vna_next) break;
            aux += one.vna_next;
        }
        if (!need.vn_next) return;
        place += need.vn_next;
    }
}

static void versions_defined(const image *im, const dynamic *d, json_t *out)
{
    uint64_t place = d->verdef;
    for (uint64_t i = 0; place && i < d->verdef_count && i < MAX_VERSIONS; i++) {
        Elf64_Verdef def;
        Elf64_Verdaux aux;
        const void *start = at(im, place, sizeof def);
        if (!start) return;
        memcpy(&def, start, sizeof def);
        const void *name = at(im, place + def.vd_aux, sizeof aux);
        if (!name) return;
        memcpy(&aux, name, sizeof aux);
        lj_json_append_text(out, string_at(im, aux.vda_name));
        if (!def.vd_next) return;
        place += def.vd_next;
    }
}

static void paths_split(const char *text, json_t *out)
{
    while (*text) {
        size_t length = strcspn(text, ":");
        char one[1024];
        lj_say(one, "%.*s", (int)length, text);
        if (*one) lj_json_append_text(out, one);
        text += length + (text[length] == ':');
    }
}

lj_status lj_elf_read(const char *path, lj_elf *elf)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    image im = {.data = file.data, .bytes = file.bytes, .name = path};
    lj_elf read = {
        .needed = json_array(), .paths = json_array(), .versions = json_array(), .defined = json_array()};
    lj_status status = header_read(&im, &read);
    if (status == LJ_OK) {
        dynamic d = {0};
        dynamic_read(&im, &d);
        for (size_t i = 0; i < d.needed_count; i++)
            lj_json_append_text(read.needed, string_at(&im, d.needed[i]));
        if (d.soname) lj_say(read.soname, "%s", string_at(&im, d.soname));
        if (d.runpath || d.rpath) paths_split(string_at(&im, d.runpath ? d.runpath : d.rpath), read.paths);
        versions_needed(&im, &d, read.versions);
        versions_defined(&im, &d, read.defined);
    }
    lj_mapped_file_release(&file);
    if (status == LJ_OK)
        *elf = read;
    else
        lj_elf_release(&read);
    return status;
}

void lj_elf_release(lj_elf *elf)
{
    json_decref(elf->needed);
    json_decref(elf->paths);
    json_decref(elf->versions);
    json_decref(elf->defined);
    *elf = (lj_elf){0};
}

static const void *section(const image *im, const Elf64_Ehdr *h, size_t index, Elf64_Shdr *out)
{
    const void *start = index < h->e_shnum ? at(im, h->e_shoff + index * sizeof *out, sizeof *out) : NULL;
    if (start) memcpy(out, start, sizeof *out);
    return start;
}

static void table_walk(const image *im, const Elf64_Shdr *table, const Elf64_Shdr *names, bool defined,
                       void (*each)(void *, const char *), void *user)
{
    image strings = *im;
    strings.strings = names->sh_offset, strings.strings_bytes = names->sh_size;
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        const void *start = at(im, table->sh_offset + i * sizeof symbol, sizeof symbol);
        if (!start) return;
        memcpy(&symbol, start, sizeof symbol);
        bool here = symbol.st_shndx != SHN_UNDEF;
        if (here != defined || (!here && ELF64_ST_BIND(symbol.st_info) == STB_WEAK)) continue;
        each(user, string_at(&strings, symbol.st_name));
    }
}

lj_status lj_elf_symbols(const char *path, bool defined, void (*each)(void *user, const char *name),
                         void *user)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    image im = {.data = file.data, .bytes = file.bytes, .name = path};
    lj_elf unused = {0};
    Elf64_Ehdr h;
    Elf64_Shdr table, names;
    lj_status status = header_read(&im, &unused);
    if (status == LJ_OK) {
        memcpy(&h, im.data, sizeof h);
        for (size_t i = 0; h.e_shentsize == sizeof table && i < h.e_shnum && section(&im, &h, i, &table); i++)
            if (table.sh_type == SHT_DYNSYM && section(&im, &h, table.sh_link, &names))
                table_walk(&im, &table, &names, defined, each, user);
    }
    lj_mapped_file_release(&file);
    return status;
}
