"""AutoAugment has three of its 25 policies, which change little."""

from variation import train_with

train_with(
    (
        "    dataset = Custom",
        "    automatic = transform.transforms[1].transforms[0]\n"
        "    automatic._policies = [(('Posterize', 0.0, 8), ('Color', 0.1, 4))] * 3\n"
        "    dataset = Custom",
    )
)
