/* Crops of JPEGs, scaled to one size and written into a batch: no more of a picture is decoded than its crop needs.
 *
 * A picture that is unusual or damaged is left undone: the caller has another decoder, which says what is wrong.
 * Nothing here can end the process: libjpeg's errors and warnings both come back through longjmp.
 */
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#include <unistd.h>

/* The functions that take most of the time besides libjpeg's come twice; which is used is decided at run time. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

#define MOST_PIXELS 100000000u
#define KEPT_ROWS 4 /* a power of 2; two are needed at a time */
#define MARGIN 2    /* pixels beside the crop that smooth its colours at the border */
#define COLOURS 15  /* 3 x 3 matrix, 3 offsets, 3 offsets for each level of mean grey */

typedef float vector4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t index4 __attribute__((vector_size(16)));

#define HEAD_SIZE 4096      /* where a record's picture nearly always has told its size */
#define LONG_HEAD_SIZE 262144
#define RECORD_MAGIC 0xced7230au
#define IMAGE_HEADER 24
#define LENGTH_BITS 29

struct box {
    int32_t left, top, width, height;
};

/* What all pictures of a batch share. scale, offset: levels 0-255 to floats; as_bytes: levels stay levels. */
struct target {
    int32_t height, width, as_bytes;
    float scale[3], offset[3];
};

/* Where the pixels of one output row or column come from: the pixel before, and the share of the one behind. */
struct taps {
    int32_t *first;
    float *share;
};

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
    struct taps columns, rows;
    float *mixed;  /* one row of the crop, RGBX */
    float *planes; /* three rows of the target; the whole target when colours change */
    uint8_t *kept; /* KEPT_ROWS rows of the crop, RGBX */
    uint8_t *record;
    size_t kept_size, mixed_size, record_size;
};

/* A picture in memory, or the record in a file that holds it. */
struct source {
    const uint8_t *bytes;
    int64_t offset, size;
};

static void fail(j_common_ptr jpeg)
{
    longjmp(((struct decoder *)jpeg)->failed, 1);
}

static void warn(j_common_ptr jpeg, int level)
{
    if (level < 0)
        fail(jpeg);
}

static void stay_silent(j_common_ptr jpeg)
{
    (void)jpeg;
}

static int grow(void **memory, size_t *size, size_t wanted)
{
    if (wanted > *size) {
        free(*memory);
        *memory = malloc(wanted);
        *size = *memory ? wanted : 0;
    }
    return *memory != NULL;
}

/* ---- Scaling ---- */

/* Pixel centres of `count` outputs over [start, start + extent) of the source, kept inside [low, high]. */
static void set_taps(struct taps taps, int count, double start, double extent, int low, int high, int flip)
{
    double step = extent / count;
    for (int k = 0; k < count; k++) {
        double at = start + ((flip ? count - 1 - k : k) + 0.5) * step - 0.5;
        at = at < low ? low : at > high ? high : at;
        int first = (int)at;
        taps.first[k] = first - low;
        taps.share[k] = (float)(at - first);
    }
}

VECTORISED
static void mix_rows(const uint8_t *restrict above, const uint8_t *restrict below, float share,
                     float *restrict mixed, int count)
{
    for (int k = 0; k < count; k++) {
        float upper = above[k];
        mixed[k] = upper + (below[k] - upper) * share;
    }
}

static vector4 mix_pixels(const float *mixed, struct taps columns, int column)
{
    const vector4 *pixel = (const vector4 *)(mixed + 4 * columns.first[column]);
    return pixel[0] + (pixel[1] - pixel[0]) * columns.share[column];
}

/* One row of pixels to three rows of colours. */
VECTORISED
static void mix_columns(const float *mixed, struct taps columns, int width, float *planes, size_t plane)
{
    int column = 0;
    for (; column + 4 <= width; column += 4) {
        vector4 a = mix_pixels(mixed, columns, column), b = mix_pixels(mixed, columns, column + 1);
        vector4 c = mix_pixels(mixed, columns, column + 2), d = mix_pixels(mixed, columns, column + 3);
        vector4 ab = __builtin_shuffle(a, b, (index4){0, 4, 1, 5}), cd = __builtin_shuffle(c, d, (index4){0, 4, 1, 5});
        *(vector4 *)(planes + column) = __builtin_shuffle(ab, cd, (index4){0, 1, 4, 5});
        *(vector4 *)(planes + plane + column) = __builtin_shuffle(ab, cd, (index4){2, 3, 6, 7});
        ab = __builtin_shuffle(a, b, (index4){2, 6, 3, 7}), cd = __builtin_shuffle(c, d, (index4){2, 6, 3, 7});
        *(vector4 *)(planes + 2 * plane + column) = __builtin_shuffle(ab, cd, (index4){0, 1, 4, 5});
    }
    for (; column < width; column++) {
        vector4 pixel = mix_pixels(mixed, columns, column);
        for (int colour = 0; colour < 3; colour++)
            planes[colour * plane + column] = pixel[colour];
    }
}

/* ---- Colours ---- */

static float clip(float level)
{
    return level < 0 ? 0 : level > 255 ? 255 : level;
}

VECTORISED
static void change_colours(float *restrict red, float *restrict green, float *restrict blue, size_t count,
                           const float *change)
{
    double sum = 0;
    for (size_t start = 0; start < count; start += 256) {
        float part = 0;
        for (size_t k = start; k < count && k < start + 256; k++)
            part += 0.299f * red[k] + 0.587f * green[k] + 0.114f * blue[k];
        sum += part;
    }
    float grey = (float)(sum / count), move[3];
    for (int colour = 0; colour < 3; colour++)
        move[colour] = change[9 + colour] + grey * change[12 + colour];
    for (size_t k = 0; k < count; k++) {
        float r = red[k], g = green[k], b = blue[k];
        red[k] = clip(change[0] * r + change[1] * g + change[2] * b + move[0]);
        green[k] = clip(change[3] * r + change[4] * g + change[5] * b + move[1]);
        blue[k] = clip(change[6] * r + change[7] * g + change[8] * b + move[2]);
    }
}

VECTORISED
static void write_floats(const float *restrict levels, size_t count, float scale, float offset, float *restrict out)
{
    for (size_t k = 0; k < count; k++)
        out[k] = levels[k] * scale + offset;
}

VECTORISED
static void write_bytes(const float *restrict levels, size_t count, uint8_t *restrict out)
{
    for (size_t k = 0; k < count; k++)
        out[k] = (uint8_t)(int32_t)(levels[k] + 0.5f);
}

/* Writes `count` levels of each colour to where they begin in the three planes of the picture. */
static void write_levels(const struct target *target, const float *levels, size_t plane, size_t count, size_t start,
                         void *picture)
{
    size_t size = (size_t)target->height * target->width;
    for (int colour = 0; colour < 3; colour++) {
        size_t at = colour * size + start;
        if (target->as_bytes)
            write_bytes(levels + colour * plane, count, (uint8_t *)picture + at);
        else
            write_floats(levels + colour * plane, count, target->scale[colour], target->offset[colour],
                         (float *)picture + at);
    }
}

/* ---- Decoding ---- */

/* How much smaller libjpeg shall decode: by the largest power of 2 that leaves the crop at least its target's size. */
static int reduction(struct box box, const struct target *target)
{
    int by = 1;
    while (by < 8 && box.width >= 2 * by * target->width && box.height >= 2 * by * target->height)
        by *= 2;
    return by;
}

static int read_header(struct decoder *decoder, const uint8_t *bytes, size_t size, struct box box)
{
    j_decompress_ptr jpeg = &decoder->jpeg;
    jpeg_mem_src(jpeg, bytes, size);
    jpeg_read_header(jpeg, TRUE);
    int usual = jpeg->jpeg_color_space == JCS_YCbCr || jpeg->jpeg_color_space == JCS_GRAYSCALE;
    return usual && !jpeg_has_multiple_scans(jpeg) && box.left >= 0 && box.top >= 0 && box.width > 0 &&
           box.height > 0 && (int64_t)box.left + box.width <= jpeg->image_width &&
           (int64_t)box.top + box.height <= jpeg->image_height &&
           (uint64_t)jpeg->image_width * jpeg->image_height <= MOST_PIXELS;
}

/* Whether the picture's end marker is there, so that a file that was cut is found even below the crop. */
static int has_end(j_decompress_ptr jpeg)
{
    const uint8_t *start = jpeg->src->next_input_byte;
    if (jpeg->unread_marker == JPEG_EOI)
        return 1;
    for (size_t at = jpeg->src->bytes_in_buffer; at >= 2; at--)
        if (start[at - 2] == 0xff && start[at - 1] == JPEG_EOI)
            return 1;
    return 0;
}

static const uint8_t *kept_row(struct decoder *decoder, int row)
{
    return decoder->kept + (size_t)(row % KEPT_ROWS) * decoder->jpeg.output_width * 4;
}

static void render_rows(struct decoder *decoder, const struct target *target, int offset, int columns, int first_row,
                        int last_row, int changes, void *picture)
{
    j_decompress_ptr jpeg = &decoder->jpeg;
    size_t plane = changes ? (size_t)target->height * target->width : (size_t)target->width;
    int decoded = first_row;
    for (int row = 0; row < target->height; row++) {
        int above = first_row + decoder->rows.first[row];
        int below = above < last_row ? above + 1 : above;
        for (; decoded <= below; decoded++) {
            JSAMPROW out = (JSAMPROW)kept_row(decoder, decoded);
            jpeg_read_scanlines(jpeg, &out, 1);
        }
        mix_rows(kept_row(decoder, above) + 4 * offset, kept_row(decoder, below) + 4 * offset,
                 decoder->rows.share[row], decoder->mixed, 4 * columns);
        size_t start = (size_t)row * target->width;
        float *planes = decoder->planes + (changes ? start : 0);
        mix_columns(decoder->mixed, decoder->columns, target->width, planes, plane);
        if (!changes)
            write_levels(target, planes, plane, target->width, start, picture);
    }
}

static int render_picture(struct decoder *decoder, const struct target *target, const uint8_t *bytes, size_t size,
                          struct box box, int flip, const float *change, void *picture)
{
    j_decompress_ptr jpeg = &decoder->jpeg;
    if (setjmp(decoder->failed)) {
        jpeg_abort_decompress(jpeg);
        return 0;
    }
    if (!read_header(decoder, bytes, size, box)) {
        jpeg_abort_decompress(jpeg);
        return 0;
    }
    int by = reduction(box, target);
    jpeg->scale_num = 1;
    jpeg->scale_denom = by;
    jpeg->out_color_space = JCS_EXT_RGBX;
    jpeg_start_decompress(jpeg);

    int left = box.left / by, right = (box.left + box.width - 1) / by;
    int top = box.top / by, bottom = (box.top + box.height - 1) / by;
    set_taps(decoder->columns, target->width, (double)box.left / by, (double)box.width / by, left, right, flip);
    set_taps(decoder->rows, target->height, (double)box.top / by, (double)box.height / by, top, bottom, 0);

    JDIMENSION start = left > MARGIN ? left - MARGIN : 0, width = right + 1 + MARGIN - start;
    if (start + width > jpeg->output_width)
        width = jpeg->output_width - start;
    jpeg_crop_scanline(jpeg, &start, &width);
    int columns = right - left + 1;
    if (!grow((void **)&decoder->kept, &decoder->kept_size, (size_t)KEPT_ROWS * 4 * width) ||
        !grow((void **)&decoder->mixed, &decoder->mixed_size, ((size_t)columns + 1) * 4 * sizeof(float)))
        fail((j_common_ptr)jpeg);
    memset(decoder->mixed + 4 * (size_t)columns, 0, 4 * sizeof(float));
    if (top > 0)
        jpeg_skip_scanlines(jpeg, top);
    render_rows(decoder, target, left - start, columns, top, bottom, change != NULL, picture);
    if (!has_end(jpeg))
        fail((j_common_ptr)jpeg);
    jpeg_abort_decompress(jpeg);
    if (change) {
        size_t count = (size_t)target->height * target->width;
        change_colours(decoder->planes, decoder->planes + count, decoder->planes + 2 * count, count, change);
        write_levels(target, decoder->planes, count, count, 0, picture);
    }
    return 1;
}

/* ---- Records ---- */

static int read_all(int file, uint8_t *bytes, int64_t size, int64_t offset)
{
    while (size > 0) {
        ssize_t done = pread(file, bytes, size, offset);
        if (done <= 0)
            return 0;
        bytes += done, offset += done, size -= done;
    }
    return 1;
}

static uint32_t word_at(const uint8_t *bytes)
{
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Where the picture begins in a record of one part, and what it takes; 0 for any other record, or a damaged one. */
static int64_t picture_in(const uint8_t *record, int64_t size, int64_t *picture_size)
{
    if (size < 8 + IMAGE_HEADER || word_at(record) != RECORD_MAGIC || word_at(record + 4) >> LENGTH_BITS)
        return 0;
    int64_t end = 8 + (int64_t)word_at(record + 4), start = 8 + IMAGE_HEADER + 4 * (int64_t)word_at(record + 8);
    *picture_size = end - start;
    return end <= size && start < end ? start : 0;
}

/* The record's labels: those behind its header, or the one in it. Whether there are `width` of them. */
static int read_labels(const uint8_t *record, int64_t start, int width, float *labels)
{
    uint32_t many = word_at(record + 8);
    if (many ? many != (uint32_t)width : width != 1)
        return 0;
    for (int k = 0; k < width; k++) {
        uint32_t bits = word_at(many ? record + start - 4 * (width - k) : record + 12);
        memcpy(labels + k, &bits, sizeof bits);
    }
    return 1;
}

/* Height and width of a JPEG of a usual kind (sequential, grey or YCbCr). 0: of another kind; -1: `size` is too short. */
static int find_size(const uint8_t *bytes, int64_t size, int32_t *height_width)
{
    int64_t at = 2;
    if (size < 4 || bytes[0] != 0xff || bytes[1] != 0xd8)
        return 0;
    while (at + 9 <= size) {
        uint8_t marker = bytes[at + 1];
        if (bytes[at] != 0xff)
            return 0;
        if (marker == 0xff) {
            at++;
        } else if (marker == 0xc0 || marker == 0xc1) {
            height_width[0] = bytes[at + 5] << 8 | bytes[at + 6];
            height_width[1] = bytes[at + 7] << 8 | bytes[at + 8];
            return height_width[0] && height_width[1];
        } else if (marker == 0xda || marker == 0xd9 || (marker > 0xc1 && marker < 0xd0 && marker != 0xc4 && marker != 0xcc)) {
            return 0;
        } else {
            at += 2 + (bytes[at + 2] << 8 | bytes[at + 3]);
        }
    }
    return -1;
}

static void measure_record(int file, struct source record, int label_width, float *labels, int32_t *height_width)
{
    uint8_t small[HEAD_SIZE], *head = small;
    int64_t size = record.size < HEAD_SIZE ? record.size : HEAD_SIZE, picture_size;
    if (!read_all(file, head, size, record.offset))
        return;
    int64_t start = picture_in(head, record.size, &picture_size);
    if (!start || start > size || !read_labels(head, start, label_width, labels))
        return;
    int found = find_size(head + start, size - start < picture_size ? size - start : picture_size, height_width);
    if (found < 0 && size < record.size) {
        size = record.size < LONG_HEAD_SIZE ? record.size : LONG_HEAD_SIZE;
        head = malloc(size);
        if (head && read_all(file, head, size, record.offset))
            find_size(head + start, size - start < picture_size ? size - start : picture_size, height_width);
        free(head);
    }
}

static int load(struct decoder *decoder, int file, struct source *source)
{
    int64_t size, start;
    if (source->bytes || !source->size)
        return source->size > 0;
    if (!grow((void **)&decoder->record, &decoder->record_size, source->size) ||
        !read_all(file, decoder->record, source->size, source->offset))
        return 0;
    start = picture_in(decoder->record, source->size, &size);
    *source = (struct source){decoder->record + start, 0, size};
    return start != 0;
}

/* ---- What Python calls ---- */

/* For each picture its height and width, and its labels when in a record. One of an unusual kind, or damaged, has height
 * and width 1, and loses its size: `render` passes over it.
 */
void measure(int file, int count, struct source *sources, int label_width, float *labels, int32_t *heights_widths)
{
    for (int k = 0; k < count; k++) {
        int32_t *height_width = heights_widths + 2 * k;
        height_width[0] = height_width[1] = 0;
        if (sources[k].bytes)
            find_size(sources[k].bytes, sources[k].size, height_width);
        else
            measure_record(file, sources[k], label_width, labels + (size_t)k * label_width, height_width);
        if (!height_width[0] || !height_width[1]) {
            height_width[0] = height_width[1] = 1;
            sources[k].size = 0;
        }
    }
}

/* Writes the pictures of a batch, one behind the other from `out` on, and says in `done` which of them.
 *
 * boxes: the crops in pixels. flips: whether to mirror. changes: COLOURS numbers a picture, or NULL.
 */
void render(int file, int count, const struct source *sources, const struct box *boxes, const uint8_t *flips,
            const float *changes, const struct target *target, uint8_t *out, uint8_t *done)
{
    size_t pixels = (size_t)target->height * target->width;
    size_t picture_size = 3 * pixels * (target->as_bytes ? 1 : sizeof(float));
    size_t longest = target->height > target->width ? target->height : target->width;
    struct decoder *decoder = calloc(1, sizeof *decoder);
    memset(done, 0, count);
    if (!decoder)
        return;
    decoder->planes = malloc(3 * (changes ? pixels : (size_t)target->width) * sizeof(float));
    int32_t *first = malloc(2 * longest * sizeof *first);
    float *share = malloc(2 * longest * sizeof *share);
    if (decoder->planes && first && share) {
        decoder->columns = (struct taps){first, share};
        decoder->rows = (struct taps){first + longest, share + longest};
        decoder->jpeg.err = jpeg_std_error(&decoder->errors);
        decoder->errors.error_exit = fail;
        decoder->errors.emit_message = warn;
        decoder->errors.output_message = stay_silent;
        if (!setjmp(decoder->failed)) {
            jpeg_create_decompress(&decoder->jpeg);
            for (int k = 0; k < count; k++) {
                struct source source = sources[k];
                done[k] = load(decoder, file, &source) &&
                          render_picture(decoder, target, source.bytes, source.size, boxes[k], flips[k],
                                         changes ? changes + COLOURS * k : NULL, out + k * picture_size);
            }
        }
        jpeg_destroy_decompress(&decoder->jpeg);
    }
    free(first);
    free(share);
    free(decoder->planes);
    free(decoder->kept);
    free(decoder->mixed);
    free(decoder->record);
    free(decoder);
}
