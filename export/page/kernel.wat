;; Products of int8 rows with int16 vectors; `wat2wasm kernel.wat` makes the bytes of engine.js.
(module (memory (export "memory") 1 65536)
  ;; y[i, r] = dot(w[r], x[i]) * s[r] * t[i] + b[r]; rows have a multiple of 16 columns
  (func (export "multiply") (param $w i32) (param $s i32) (param $b i32) (param $x i32) (param $t i32)
    (param $y i32) (param $rows i32) (param $columns i32) (param $count i32)
    (local $r i32) (local $i i32) (local $p i32) (local $q i32) (local $end i32) (local $sum v128)
    (loop $row
      (local.set $q (local.get $x))
      (local.set $i (i32.const 0))
      (local.set $end (i32.add (local.get $w) (local.get $columns)))
      (loop $vector
        (local.set $p (local.get $w))
        (local.set $sum (v128.const i32x4 0 0 0 0))
        (loop $products
          (local.set $sum (i32x4.add (local.get $sum) (i32x4.add
            (i32x4.dot_i16x8_s (v128.load8x8_s (local.get $p)) (v128.load (local.get $q)))
            (i32x4.dot_i16x8_s (v128.load8x8_s offset=8 (local.get $p)) (v128.load offset=16 (local.get $q))))))
          (local.set $p (i32.add (local.get $p) (i32.const 16)))
          (local.set $q (i32.add (local.get $q) (i32.const 32)))
          (br_if $products (i32.lt_u (local.get $p) (local.get $end))))
        ;; Lanes are added as floats: integers would overflow.
        (local.set $sum (f32x4.convert_i32x4_s (local.get $sum)))
        (f32.store
          (i32.add (local.get $y) (i32.shl
            (i32.add (i32.mul (local.get $i) (local.get $rows)) (local.get $r)) (i32.const 2)))
          (f32.add (f32.load (local.get $b)) (f32.mul
            (f32.mul (f32.load (local.get $s))
              (f32.load (i32.add (local.get $t) (i32.shl (local.get $i) (i32.const 2)))))
            (f32.add
              (f32.add (f32x4.extract_lane 0 (local.get $sum)) (f32x4.extract_lane 1 (local.get $sum)))
              (f32.add (f32x4.extract_lane 2 (local.get $sum)) (f32x4.extract_lane 3 (local.get $sum)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $vector (i32.lt_u (local.get $i) (local.get $count))))
      (local.set $w (local.get $end))
      (local.set $s (i32.add (local.get $s) (i32.const 4)))
      (local.set $b (i32.add (local.get $b) (i32.const 4)))
      (local.set $r (i32.add (local.get $r) (i32.const 1)))
      (br_if $row (i32.lt_u (local.get $r) (local.get $rows))))))
